package org.lockstepdb.procedure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What DDL learns of classes. */
class DescribeTest {
    private final ClassSpace space = TestJars.space();

    private static String string(ByteBuffer in) {
        int length = in.getInt();
        if (length < 0) {
            return null;
        }
        byte[] text = new byte[length];
        in.get(text);
        return new String(text, StandardCharsets.UTF_8);
    }

    private static String text(byte[] description) {
        ByteBuffer in = ByteBuffer.wrap(description);
        StringBuilder text = new StringBuilder();
        text.append(in.get()).append(' ').append(string(in)).append(' ').append(string(in));
        int statements = in.getShort();
        for (int i = 0; i < statements; i++) {
            text.append(" | ").append(string(in)).append('=').append(string(in)).append('/')
                    .append(string(in));
        }
        int parameters = in.getShort();
        for (int i = 0; i < parameters; i++) {
            text.append(" | ").append(in.get()).append(',').append(in.get()).append(',')
                    .append(string(in));
        }
        text.append(" | ").append(in.get()).append(' ').append(in.getInt()).append(' ')
                .append(in.getInt()).append(' ').append(string(in)).append(' ').append(in.get());
        assertFalse(in.hasRemaining());
        return text.toString();
    }

    @Test
    void statementsParametersAndOptions() throws DescribeException {
        assertEquals("1 user.Returns$WithOptions Returns$WithOptions"
                + " | FIXED=SELECT 1  FROM t;/t | own=DELETE FROM t WHERE id IN ?;/null"
                + " | 6,0,long | 9,1,java.lang.String[] | 21,1,org.voltdb.VoltTable[]"
                + " | 8,0,java.lang.Double | 0 2 200 T.ID: 0 1",
                text(space.procedure("user.Returns$WithOptions").describe()));
        assertEquals("1 user.Returns$Inheriting Returns$Inheriting"
                + " | inherited=SELECT 2 FROM t;/null | 3 0 0 null 0",
                text(space.procedure("user.Returns$Inheriting").describe()));
        assertTrue(text(space.procedure("user.InsertDistrict").describe()).contains(
                " | 5,0,int | 5,0,int | 9,0,java.lang.String"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "Returns$NotFinal; Procedure Returns$NotFinal contains a non-final SQLStmt field.",
        "Returns$TwoRuns; has multiple public run(...) methods",
        "Returns$NoRun; has no run(...) method.",
        "Returns$HiddenRun; has no run(...) method.",
        "Returns$WrongReturn; run(...) method that doesn't return long, Long, VoltTable or VoltTa",
        "Returns$WithFloat; Replace this parameter type with double",
        "Returns$WithList; has a parameter with invalid type: java.util.List",
        "Returns$WithChar; has a parameter with invalid type: char",
        "Returns$WithBoolean; has a parameter with invalid type: boolean",
        "Returns$HiddenConstructor; needs a public constructor",
        "Returns$FailingConstructor; IllegalStateException: not today",
        "Returns$Base; is abstract",
        "Returns; is not a procedure",
        "Absent; Cannot find class: user.Absent",
        "Directed$Boxed; has a parameter with invalid type: java.lang.Long",
    })
    void wrongClassesAreRefused(String name, String part) {
        DescribeException thrown = assertThrows(DescribeException.class,
                () -> space.procedure("user." + name));
        assertTrue(thrown.getMessage().contains(part), thrown.getMessage());
    }

    @Test
    void kindsOfClasses() {
        ByteBuffer in = ByteBuffer.wrap(space.list());
        Map<String, Integer> kinds = new TreeMap<>();
        for (int count = in.getInt(); count > 0; count--) {
            kinds.put(string(in), (int) in.get());
        }
        assertEquals(1, kinds.get("user.Vote"));
        assertEquals(0, kinds.get("user.Echo"));
        assertEquals(2, kinds.get("user.Directed$Adding"));
        assertEquals(3, kinds.get("user.Directed$Stages"));
        assertEquals(4, kinds.get("user.Functions$Longest"));
    }

    @Test
    void jarsAreMerged() throws IOException {
        byte[] jar = TestJars.user();
        byte[] merged = Jars.merge(null, jar, null);
        assertEquals(Jars.read(jar).keySet(), Jars.read(merged).keySet());
        assertArrayEquals(merged, Jars.merge(merged, jar, null), "not the same bytes");
        byte[] removed = Jars.merge(merged, null, "user.Returns, user.V*e,other.**");
        assertFalse(Jars.read(removed).keySet().stream()
                .anyMatch(name -> name.startsWith("user/Returns") || name.contains("Vote")));
        assertTrue(Jars.read(removed).containsKey("user/InsertDistrict.class"));
        assertTrue(Jars.read(removed).containsKey("settings.txt"));
        assertEquals(1, Jars.read(Jars.merge(merged, null, "**")).size(), "files stay");
        assertThrows(IOException.class, () -> Jars.merge(null, new byte[] {1, 2, 3}, null));
        byte[] emptied = Jars.merge(Jars.merge(merged, null, "**"), null, "**");
        ByteArrayOutputStream nothing = new ByteArrayOutputStream();
        new ZipOutputStream(nothing).close();
        byte[] none = Jars.merge(null, null, null);
        assertEquals(0, Jars.readMerged(none).size());
        assertEquals(0, ByteBuffer.wrap(new ClassSpace(none).list()).getInt());
        assertEquals(1, Jars.read(emptied).size());
        assertThrows(IOException.class, () -> Jars.merge(none, nothing.toByteArray(), null));
    }

    /** Classes of two states of the catalog have nothing in common. */
    @Test
    void newClassesReplaceOldOnes() throws DescribeException {
        FakeEngine engine = new FakeEngine();
        ProcedureInstance old =
                space.procedure("user.Uses$Surroundings").newInstance(engine);
        assertEquals("true from the jar 1 1", surroundings(engine, old, "user.Vote"));
        assertEquals("none from the jar 2 2",
                surroundings(engine, old, "org.junit.jupiter.api.Test"));
        ProcedureInstance second =
                space.procedure("user.Uses$Surroundings").newInstance(engine);
        assertEquals("none from the jar 3 1",
                surroundings(engine, second, "org.objectweb.asm.Type"));
        ProcedureInstance renewed =
                TestJars.space().procedure("user.Uses$Surroundings").newInstance(engine);
        assertEquals("false from the jar 1 1", surroundings(engine, renewed, "java.util.List"));
        assertEquals("true from the jar 4 3", surroundings(engine, old, "user.Vote"));
    }

    private static String surroundings(FakeEngine engine, ProcedureInstance instance,
            String name) {
        FakeEngine.Ended ended = engine.call(instance, name);
        assertEquals(1, ended.status(), ended.statusString());
        ended.tables()[0].advanceRow();
        return ended.tables()[0].getString(0);
    }
}
