package tpcc;

import org.voltdb.VoltTable;

/** New-Order with items of other warehouses, at the partitions of all of them. */
public class NewOrderRemote extends NewOrder {
    @Override
    public VoltTable[] run(short warehouse, byte district, int customer, int[] items,
            int[] suppliers, int[] quantities) {
        return super.run(warehouse, district, customer, items, suppliers, quantities);
    }
}
