import java.lang.management.ManagementFactory;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltTable.ColumnInfo;
import org.voltdb.VoltType;

/** What the JVM holds on to: its heap behind a collection, and the host's global references. */
public class Memory extends VoltProcedure {
    public VoltTable run(long key) throws Exception {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        VoltTable table = new VoltTable(
                new ColumnInfo("HEAP_BYTES", VoltType.BIGINT),
                new ColumnInfo("GLOBAL_REFERENCES", VoltType.BIGINT));
        table.addRow(runtime.totalMemory() - runtime.freeMemory(), references());
        return table;
    }

    private static long references() throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        String threads = (String) server.invoke(
                new ObjectName("com.sun.management:type=DiagnosticCommand"), "threadPrint",
                new Object[] {new String[0]}, new String[] {String[].class.getName()});
        Matcher matcher = Pattern.compile("JNI global refs: (\\d+)").matcher(threads);
        return matcher.find() ? Long.parseLong(matcher.group(1)) : -1;
    }
}
