package tpcc;

import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** Delivery of one district: a tenth of the whole, as a call of its own. */
public class DeliveryOfDistrict extends Delivery {
    public VoltTable run(short warehouse, byte district, int carrier) {
        if (district == VoltType.NULL_TINYINT) {
            throw new VoltAbortException("parameter 1 is NULL");
        }
        return deliver(warehouse, district, district, carrier);
    }
}
