package tpcc;

import java.math.BigDecimal;
import org.voltdb.VoltTable;

/** Payment of a customer of another warehouse, at the partitions of both. */
public class PaymentRemote extends Payment {
    @Override
    public VoltTable[] run(short warehouse, byte district, BigDecimal amount,
            short customerWarehouse, byte customerDistrict, int number, String last) {
        return super.run(warehouse, district, amount, customerWarehouse, customerDistrict, number,
                last);
    }
}
