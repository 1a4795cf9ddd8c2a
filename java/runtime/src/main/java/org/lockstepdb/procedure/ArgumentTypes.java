package org.lockstepdb.procedure;

import org.voltdb.SQLStmt;
import org.voltdb.VoltType;
import org.voltdb.VoltTypeException;

/** Which arguments a planned statement's parameters take. */
final class ArgumentTypes {
    private static final int FIRST_INTEGER = VoltType.TINYINT.getValue();
    private static final int LAST_INTEGER = VoltType.BIGINT.getValue();

    private ArgumentTypes() {}

    /** Whether both codes are of integers, each of which fits each, but for its range. */
    static boolean areIntegers(int given, int planned) {
        return given >= FIRST_INTEGER && given <= LAST_INTEGER && planned >= FIRST_INTEGER
                && planned <= LAST_INTEGER;
    }

    /**
     * @param given the code of the argument's type, negative for an array of it
     * @param planned the code of the parameter's type, likewise
     */
    static void check(Procedure procedure, SQLStmt statement, int index, int given, int planned) {
        if (!fits(given, planned)) {
            String wanted = name(planned);
            throw new VoltTypeException("Procedure " + procedure.name()
                    + ": Incompatible parameter type: can not convert type '" + name(given)
                    + "' to '" + wanted + "' for arg " + index + " for SQL stmt: "
                    + statement.getText() + " Try explicitly using a " + wanted + " parameter.");
        }
    }

    private static String name(int code) {
        return code < 0 ? VoltType.get((byte) -code).getName() + "[]"
                : VoltType.get((byte) code).getName();
    }

    private static boolean fits(int given, int planned) {
        if (planned == 0) {
            return true;
        }
        boolean listWanted = planned < 0 || planned == VoltType.INLIST_OF_BIGINT.getValue()
                || planned == VoltType.INLIST_OF_STRING.getValue();
        if (given < 0 || listWanted) {
            return given < 0 && listWanted && listFits(VoltType.get((byte) -given), planned);
        }
        VoltType from = VoltType.get((byte) given);
        VoltType to = VoltType.get((byte) planned);
        if (from == to) {
            return true;
        }
        boolean toNumber = to.isNumber();
        boolean toText = to == VoltType.STRING;
        if (from == VoltType.STRING) {
            return toNumber || to == VoltType.TIMESTAMP || to == VoltType.VARBINARY
                    || to == VoltType.GEOGRAPHY || to == VoltType.GEOGRAPHY_POINT;
        }
        if (from.isNumber()) {
            return toNumber || toText || to == VoltType.TIMESTAMP;
        }
        if (from == VoltType.TIMESTAMP) {
            return toNumber || toText;
        }
        return from == VoltType.VARBINARY && toText;
    }

    private static boolean listFits(VoltType element, int planned) {
        VoltType wanted;
        if (planned == VoltType.INLIST_OF_BIGINT.getValue()) {
            wanted = VoltType.BIGINT;
        } else if (planned == VoltType.INLIST_OF_STRING.getValue()) {
            wanted = VoltType.STRING;
        } else {
            wanted = VoltType.get((byte) -planned);
        }
        boolean texts = element == VoltType.VARBINARY && wanted == VoltType.STRING;
        return element == wanted || texts || (element.isNumber() && wanted.isNumber());
    }
}
