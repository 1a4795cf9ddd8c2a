"""The driver for the PyTPCC harness: the calls that the harness makes, through a stand-in for it.

The stand-in has the interface of the harness's abstract driver and nothing else.
"""

import datetime
import importlib.util
import pathlib
import sys
import types

from harness import Case

DRIVER = pathlib.Path(__file__).resolve().parents[4] / "clients/pytpcc/lockstepdriver.py"
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)
WAREHOUSES, DISTRICTS, CUSTOMERS, ITEMS, LINES = (1, 2), 10, 3, 20, 2


class AbstractDriver:
    """What the harness's drivers derive from."""

    def __init__(self, name, ddl):
        self.name, self.ddl = name, ddl


def driver_class():
    """The driver's class, loaded as the harness loads it."""
    package, abstract = types.ModuleType("drivers"), types.ModuleType("drivers.abstractdriver")
    package.__path__, abstract.AbstractDriver = [], AbstractDriver
    sys.modules.update({"drivers": package, "drivers.abstractdriver": abstract})
    spec = importlib.util.spec_from_file_location("drivers.lockstepdriver", DRIVER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LockstepDriver


def rows_of_warehouse(w_id):
    """(table, rows) in the order and the form in which the harness hands them over."""
    address = ["name", "street", "street", "city", "ST", "123411111"]
    yield "WAREHOUSE", [[w_id, *address, 0.1, 30.0 * DISTRICTS * CUSTOMERS]]
    for d_id in range(1, DISTRICTS + 1):
        numbers = range(1, CUSTOMERS + 1)
        yield "DISTRICT", [[d_id, w_id, *address, 0.05, 30.0 * CUSTOMERS, CUSTOMERS + 1]]
        yield "CUSTOMER", [
            [c_id, d_id, w_id, "first%d" % c_id, "OE", "BARBARBAR", *address[1:], "1" * 16, NOW,
             "BC" if c_id == 1 else "GC", 50000.0, 0.1, -10.0, 10.0, 1, 0, "data"]
            for c_id in numbers]
        # The last order waits: the harness writes its carrier as 0.
        yield "ORDERS", [
            [o_id, o_id, d_id, w_id, NOW, 0 if o_id == CUSTOMERS else 5, LINES, 1]
            for o_id in numbers]
        yield "ORDER_LINE", [
            [o_id, d_id, w_id, line, line + 1, w_id, None if o_id == CUSTOMERS else NOW, 5, 1.5,
             "info"]
            for o_id in numbers for line in range(LINES)]
        yield "NEW_ORDER", [[CUSTOMERS, d_id, w_id]]
        yield "HISTORY", [[c_id, d_id, w_id, d_id, w_id, NOW, 30.0, "h"] for c_id in numbers]
    yield "STOCK", [
        [i_id, w_id, 50, *["dist"] * 10, 0, 0, 0, "ORIGINAL"] for i_id in range(1, ITEMS + 1)]


class Driver(Case):
    """The driver at hosts of one site and of three."""

    matrix = "sites"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = driver_class()("tpcc.sql")
        config = {"host": "127.0.0.1", "port": str(cls.port), "warehouses": 2}
        cls.driver.loadConfig({**config, "reset": True})
        cls.addClassCleanup(cls.driver.executeFinish)
        cls.addClassCleanup(cls.driver._drop_all)
        cls.driver.loadStart()
        items = [[i_id, 1, "item", 2.5, "ORIGINAL"] for i_id in range(1, ITEMS + 1)]
        cls.driver.loadTuples("ITEM", items)
        for w_id in WAREHOUSES:
            for table, rows in rows_of_warehouse(w_id):
                cls.driver.loadTuples(table, rows)
        cls.driver.loadFinish()

    def count(self, text):
        """The only number of a query."""
        return self.rows(text)[0][0]

    def test_what_the_harness_loads_is_there(self):
        self.assertEqual(self.count("SELECT COUNT(*) FROM stock"), 2 * ITEMS)
        self.assertEqual(self.count("SELECT COUNT(*) FROM item"), ITEMS)
        waiting = "SELECT COUNT(*) FROM orders WHERE o_w_id = 1 AND o_id = 3 AND %s IS NULL"
        self.assertEqual(self.count(waiting % "o_carrier_id"), DISTRICTS)

    def test_orders_are_taken_and_taken_back(self):
        before = self.count("SELECT COUNT(*) FROM orders")
        for w_id, suppliers in ((1, [1, 1]), (2, [2, 1])):
            order = {"w_id": w_id, "d_id": 3, "c_id": 2, "o_entry_d": NOW, "i_ids": [4, 9],
                     "i_w_ids": suppliers, "i_qtys": [3, 1]}
            (customer, terms, lines), retries = self.driver.doNewOrder(order)
            self.assertEqual((customer[1], terms[2], retries), ("BARBARBAR", CUSTOMERS + 1, 0))
            self.assertEqual([line[2:5] for line in map(list, lines)],
                             [["B", 2.5, 7.5], ["B", 2.5, 2.5]])
            bad = {**order, "i_ids": [4, ITEMS + 1]}
            self.assertEqual(self.driver.doNewOrder(bad), (None, 0))
        self.assertEqual(self.count("SELECT COUNT(*) FROM orders"), before + 2)

    def test_payments_by_number_and_by_name(self):
        payment = {"w_id": 1, "d_id": 5, "h_amount": 12.34, "c_w_id": 1, "c_d_id": 5, "c_id": 1,
                   "c_last": None, "h_date": NOW}
        (_, _, customer), _ = self.driver.doPayment(payment)
        self.assertEqual(customer[0], 1)
        elsewhere = {**payment, "c_w_id": 2, "c_d_id": 6, "c_id": None, "c_last": "BARBARBAR"}
        (_, _, customer), _ = self.driver.doPayment(elsewhere)
        self.assertEqual(customer[0], 2)
        paid = "SELECT c_balance FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d"
        self.assertAlmostEqual(self.count(paid % (1, 5, 1)), -22.34)
        self.assertAlmostEqual(self.count(paid % (2, 6, 2)), -22.34)

    def test_the_other_three(self):
        (customer, order, lines), _ = self.driver.doOrderStatus(
            {"w_id": 2, "d_id": 8, "c_id": None, "c_last": "BARBARBAR"})
        self.assertEqual((customer[0], order[0], len(lines)), (2, 2, LINES))
        self.assertEqual(
            self.driver.doStockLevel({"w_id": 2, "d_id": 8, "threshold": 60}), (LINES, 0))
        delivered, _ = self.driver.doDelivery(
            {"w_id": 2, "o_carrier_id": 7, "ol_delivery_d": NOW})
        self.assertIn((8, CUSTOMERS), delivered)
        self.assertEqual(len(delivered), DISTRICTS)

    def test_the_report_finds_what_it_prints(self):
        driver = self.driver
        self.assertEqual((driver.warehouses, driver.denormalize, driver.no_transactions),
                         (2, False, False))
        self.assertEqual(driver.write_concern.document["w"], 1)
        driver.save_result({"tpmc": 1})
        self.assertEqual(driver.result_doc, {"tpmc": 1})
