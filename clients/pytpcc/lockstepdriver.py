"""LockstepDB under PyTPCC: a driver for the public TPC-C harness, through VoltDB's Python client.

Put this file and lockstepdriver.sql into the harness's folder `drivers`; the README beside them
says how to run it. Each transaction is one call of a procedure that the server has.
"""

import decimal
import os

from voltclient import VoltBulkLoader, VoltClient
from voltdbclient import FastSerializer, VoltProcedure

from .abstractdriver import AbstractDriver

TINYINT = FastSerializer.VOLTTYPE_TINYINT
SMALLINT = FastSerializer.VOLTTYPE_SMALLINT
INTEGER = FastSerializer.VOLTTYPE_INTEGER
STRING = FastSerializer.VOLTTYPE_STRING
DECIMAL = FastSerializer.VOLTTYPE_DECIMAL

SUCCESS, USER_ABORT = 1, -1
CENT = decimal.Decimal("0.01")
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lockstepdriver.sql")

TABLES = ("WAREHOUSE", "DISTRICT", "ITEM", "CUSTOMER", "HISTORY", "STOCK", "ORDERS", "NEW_ORDER",
          "ORDER_LINE")
PROCEDURES = {
    "NewOrder": (SMALLINT, TINYINT, INTEGER, INTEGER, INTEGER, INTEGER),
    "Payment": (SMALLINT, TINYINT, DECIMAL, SMALLINT, TINYINT, INTEGER, STRING),
    "OrderStatus": (SMALLINT, TINYINT, INTEGER, STRING),
    "Delivery": (SMALLINT, INTEGER),
    "StockLevel": (SMALLINT, TINYINT, INTEGER),
}
# The same with a second warehouse: transactions over the partitions of both.
REMOTE = {"NewOrder": "NewOrderRemote", "Payment": "PaymentRemote"}
# For --reset; what else the schema makes.
OTHER_PROCEDURES = ("NewOrderRemote", "PaymentRemote", "DeliveryOfDistrict")
# Columns whose 0 the harness writes for "none yet", by table: what is not there is NULL.
NO_CARRIER = {"ORDERS": 5}


class LockstepError(Exception):
    """The server refused something."""


class WriteConcern:
    """What the harness's report asks of a driver: results are answered once they are durable."""

    document = {"w": 1}

    def __str__(self):
        return "{'w': 1}"


class LockstepDriver(AbstractDriver):
    """Calls procedures of one host; each client of the harness has a connection of its own."""

    DEFAULT_CONFIG = {
        "host": ("The server's address", "localhost"),
        "port": ("Its client port", 21212),
        "user": ("A user, where the server asks for one", ""),
        "password": ("The user's password", ""),
        "timeout": ("Seconds that a call may take", 120),
        "batch": ("Rows of one call while loading", 500),
    }

    # What the harness's report prints of a driver; most of it is about another database.
    denormalize = False
    no_transactions = False
    batch_writes = True
    find_and_modify = False
    read_preference = "primary"
    write_concern = WriteConcern()
    causal_consistency = True
    all_in_one_txn = True
    retry_writes = False
    read_concern = "linearizable"

    def __init__(self, ddl):
        super().__init__("lockstep", ddl)
        self.config = {name: default for name, (_, default) in self.DEFAULT_CONFIG.items()}
        self.warehouses = 0
        self.result_doc = {}
        self._connection = None
        self._procedures = {}
        self._client = None
        self._loaders = {}
        self._refused = []

    # -- set-up ---------------------------------------------------------------------------------

    def makeDefaultConfig(self):
        """What can be configured: name to (meaning, default)."""
        return dict(self.DEFAULT_CONFIG)

    def loadConfig(self, config):
        """Takes the configuration, and makes the tables and procedures where there are none."""
        for name, (_, default) in self.DEFAULT_CONFIG.items():
            value = config.get(name, default)
            self.config[name] = type(default)(value)
        self.warehouses = int(config.get("warehouses", 0))
        if config.get("reset"):
            self._drop_all()
        if not self._is_there():
            with open(SCHEMA, encoding="utf-8") as text:
                self._sql(text.read())

    def _connect(self):
        if self._connection is None:
            config = self.config
            self._connection = FastSerializer(
                config["host"], config["port"], False, config["user"], config["password"],
                procedure_timeout=config["timeout"])
        return self._connection

    def _sql(self, text):
        procedure = VoltProcedure(self._connect(), "@AdHoc", [STRING])
        return self._checked("@AdHoc", procedure.call([text]))

    def _is_there(self):
        procedure = VoltProcedure(self._connect(), "@SystemCatalog", [STRING])
        table = self._checked("@SystemCatalog", procedure.call(["TABLES"]))[0]
        place = [column.name for column in table.columns].index("TABLE_NAME")
        return "WAREHOUSE" in (row[place] for row in table.tuples)

    def _drop_all(self):
        for name in (*PROCEDURES, *OTHER_PROCEDURES):
            self._sql("DROP PROCEDURE %s IF EXISTS" % name)
        for name in TABLES:
            self._sql("DROP TABLE %s IF EXISTS" % name)

    # -- loading --------------------------------------------------------------------------------

    def loadStart(self):
        """Opens the client that loads."""
        config = self.config
        self._client = VoltClient([config["host"]], port=config["port"], username=config["user"],
                                  password=config["password"],
                                  procedure_timeout=config["timeout"])

    def loadTuples(self, tableName, tuples):
        """Hands rows to the client's bulk loader, in the columns' order."""
        if tableName not in self._loaders:
            self._loaders[tableName] = VoltBulkLoader(
                self._client, tableName, batch_size=self.config["batch"],
                failure_callback=lambda row, why: self._refused.append((tableName, row, why)))
        loader = self._loaders[tableName]
        carrier = NO_CARRIER.get(tableName)
        for row in tuples:
            if carrier is not None and row[carrier] == 0:
                row = [*row[:carrier], None, *row[carrier + 1:]]
            loader.insert_row(*row)
        self._raise_refused()

    def _raise_refused(self):
        if self._refused:
            table, row, why = self._refused[0]
            raise LockstepError("%d rows were refused, the first %r of %s: %s" % (
                len(self._refused), list(row)[:4], table, getattr(why, "statusString", why)))

    def loadFinish(self):
        """Waits for all rows."""
        for loader in self._loaders.values():
            loader.close()
        self._loaders = {}
        self._client.close()
        self._raise_refused()

    # -- transactions ---------------------------------------------------------------------------

    def _call(self, name, parameters, remote=False):
        """One call; its response."""
        types = PROCEDURES[name]
        if remote:
            name = REMOTE[name]
        procedure = self._procedures.get(name)
        if procedure is None:
            procedure = VoltProcedure(self._connect(), name, list(types))
            self._procedures[name] = procedure
        return procedure.call(parameters)

    @staticmethod
    def _checked(name, response):
        if response.status != SUCCESS:
            raise LockstepError("%s: %s" % (name, response.statusString))
        return response.tables

    def doNewOrder(self, params):
        """The customer, terms and lines of the order; None where its item is unknown."""
        w_id, suppliers = params["w_id"], params["i_w_ids"]
        response = self._call(
            "NewOrder",
            [w_id, params["d_id"], params["c_id"], params["i_ids"], suppliers, params["i_qtys"]],
            remote=any(supplier != w_id for supplier in suppliers))
        if response.status == USER_ABORT and "Item number is not valid" in response.statusString:
            return None, 0
        customer, terms, lines = self._checked("NewOrder", response)
        return [customer.tuples[0], terms.tuples[0], lines.tuples], 0

    def doPayment(self, params):
        """The warehouse, the district and the customer."""
        w_id = params["w_id"]
        amount = decimal.Decimal(params["h_amount"]).quantize(CENT)
        response = self._call(
            "Payment",
            [w_id, params["d_id"], amount, params["c_w_id"], params["c_d_id"], params["c_id"],
             params["c_last"]],
            remote=params["c_w_id"] != w_id)
        return [table.tuples[0] for table in self._checked("Payment", response)], 0

    def doOrderStatus(self, params):
        """The customer, its last order and the order's lines."""
        response = self._call(
            "OrderStatus", [params["w_id"], params["d_id"], params["c_id"], params["c_last"]])
        customer, order, lines = self._checked("OrderStatus", response)
        return [customer.tuples[0], order.tuples[0] if order.tuples else None, lines.tuples], 0

    def doDelivery(self, params):
        """(district, order) of each order that was delivered."""
        response = self._call("Delivery", [params["w_id"], params["o_carrier_id"]])
        return [tuple(row) for row in self._checked("Delivery", response)[0].tuples], 0

    def doStockLevel(self, params):
        """How many items of the last orders are low."""
        response = self._call(
            "StockLevel", [params["w_id"], params["d_id"], params["threshold"]])
        return int(self._checked("StockLevel", response)[0].tuples[0][0]), 0

    # -- end ------------------------------------------------------------------------------------

    def executeFinish(self):
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._procedures = None, {}

    def save_result(self, result_doc):
        """Takes the harness's result; it is printed by the harness as well."""
        self.result_doc.update(result_doc)
