//! The nine tables of TPC-C, partitioned in one of two ways, and its procedures.

use super::scale::{Delivery, Partitioning};
use crate::form::Form;

/// Tables; `$MONEY` is the type of amounts and rates.
const TABLES: &str = "\
CREATE TABLE warehouse (
  w_id SMALLINT NOT NULL, w_name VARCHAR(16), w_street_1 VARCHAR(32), w_street_2 VARCHAR(32),
  w_city VARCHAR(32), w_state VARCHAR(2), w_zip VARCHAR(9), w_tax $MONEY, w_ytd $MONEY,
  PRIMARY KEY (w_id)
);
CREATE TABLE district (
  d_id TINYINT NOT NULL, d_w_id SMALLINT NOT NULL, d_name VARCHAR(16), d_street_1 VARCHAR(32),
  d_street_2 VARCHAR(32), d_city VARCHAR(32), d_state VARCHAR(2), d_zip VARCHAR(9),
  d_tax $MONEY, d_ytd $MONEY, d_next_o_id INTEGER,
  PRIMARY KEY (d_w_id, d_id)
);
CREATE TABLE item (
  i_id INTEGER NOT NULL, i_im_id INTEGER, i_name VARCHAR(32), i_price $MONEY,
  i_data VARCHAR(64),
  PRIMARY KEY (i_id)
);
CREATE TABLE customer (
  c_id INTEGER NOT NULL, c_d_id TINYINT NOT NULL, c_w_id SMALLINT NOT NULL,
  c_first VARCHAR(32), c_middle VARCHAR(2), c_last VARCHAR(32), c_street_1 VARCHAR(32),
  c_street_2 VARCHAR(32), c_city VARCHAR(32), c_state VARCHAR(2), c_zip VARCHAR(9),
  c_phone VARCHAR(32), c_since TIMESTAMP, c_credit VARCHAR(2), c_credit_lim $MONEY,
  c_discount $MONEY, c_balance $MONEY, c_ytd_payment $MONEY, c_payment_cnt INTEGER,
  c_delivery_cnt INTEGER, c_data VARCHAR(500),
  PRIMARY KEY (c_w_id, c_d_id, c_id)
);
CREATE INDEX idx_customer ON customer (c_w_id, c_d_id, c_last, c_first, c_id);
CREATE TABLE history (
  h_c_id INTEGER, h_c_d_id TINYINT, h_c_w_id SMALLINT, h_d_id TINYINT NOT NULL,
  h_w_id SMALLINT NOT NULL, h_date TIMESTAMP, h_amount $MONEY, h_data VARCHAR(32)
);
CREATE TABLE stock (
  s_i_id INTEGER NOT NULL, s_w_id SMALLINT NOT NULL, s_quantity INTEGER NOT NULL,
  s_dist_01 VARCHAR(32), s_dist_02 VARCHAR(32), s_dist_03 VARCHAR(32), s_dist_04 VARCHAR(32),
  s_dist_05 VARCHAR(32), s_dist_06 VARCHAR(32), s_dist_07 VARCHAR(32), s_dist_08 VARCHAR(32),
  s_dist_09 VARCHAR(32), s_dist_10 VARCHAR(32), s_ytd INTEGER, s_order_cnt INTEGER,
  s_remote_cnt INTEGER, s_data VARCHAR(64),
  PRIMARY KEY (s_w_id, s_i_id)
);
CREATE TABLE orders (
  o_id INTEGER NOT NULL, o_c_id INTEGER, o_d_id TINYINT NOT NULL, o_w_id SMALLINT NOT NULL,
  o_entry_d TIMESTAMP, o_carrier_id INTEGER, o_ol_cnt INTEGER, o_all_local INTEGER,
  PRIMARY KEY (o_w_id, o_d_id, o_id)
);
CREATE INDEX idx_orders ON orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE new_order (
  no_o_id INTEGER NOT NULL, no_d_id TINYINT NOT NULL, no_w_id SMALLINT NOT NULL,
  PRIMARY KEY (no_w_id, no_d_id, no_o_id)
);
CREATE TABLE order_line (
  ol_o_id INTEGER NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id SMALLINT NOT NULL,
  ol_number INTEGER NOT NULL, ol_i_id INTEGER, ol_supply_w_id SMALLINT,
  ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount $MONEY, ol_dist_info VARCHAR(32),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
);
";

const BY_WAREHOUSE: &str = "\
PARTITION TABLE warehouse ON COLUMN w_id;
PARTITION TABLE district ON COLUMN d_w_id;
PARTITION TABLE customer ON COLUMN c_w_id;
PARTITION TABLE history ON COLUMN h_w_id;
PARTITION TABLE stock ON COLUMN s_w_id;
PARTITION TABLE orders ON COLUMN o_w_id;
PARTITION TABLE new_order ON COLUMN no_w_id;
PARTITION TABLE order_line ON COLUMN ol_w_id;
";

const BY_DISTRICT: &str = "\
PARTITION TABLE item ON COLUMN i_id;
PARTITION TABLE customer ON COLUMN c_d_id;
PARTITION TABLE history ON COLUMN h_d_id;
PARTITION TABLE stock ON COLUMN s_i_id;
PARTITION TABLE orders ON COLUMN o_d_id;
PARTITION TABLE new_order ON COLUMN no_d_id;
PARTITION TABLE order_line ON COLUMN ol_d_id;
";

/// Calls of one warehouse run at its partition; those with a second warehouse at the partitions
/// of both.
const PROCEDURES_BY_WAREHOUSE: &str = "\
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0 FROM NATIVE NewOrder;
CREATE PROCEDURE FROM NATIVE NewOrderRemote;
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0 FROM NATIVE Payment;
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0
  AND ON TABLE customer COLUMN c_w_id PARAMETER 3 FROM NATIVE PaymentRemote;
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0 FROM NATIVE OrderStatus;
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0 FROM NATIVE Delivery;
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0
  FROM NATIVE DeliveryOfDistrict;
CREATE PROCEDURE PARTITION ON TABLE warehouse COLUMN w_id PARAMETER 0 FROM NATIVE StockLevel;
";

/// Only what stays within a district runs at one partition.
const PROCEDURES_BY_DISTRICT: &str = "\
CREATE PROCEDURE FROM NATIVE NewOrderRemote;
CREATE PROCEDURE FROM NATIVE PaymentRemote;
CREATE PROCEDURE PARTITION ON TABLE customer COLUMN c_d_id PARAMETER 1 FROM NATIVE OrderStatus;
CREATE PROCEDURE FROM NATIVE Delivery;
CREATE PROCEDURE PARTITION ON TABLE customer COLUMN c_d_id PARAMETER 1
  FROM NATIVE DeliveryOfDistrict;
CREATE PROCEDURE FROM NATIVE StockLevel;
";

/// All procedures of both ways.
const NAMES: [&str; 8] = [
    "NewOrder",
    "NewOrderRemote",
    "Payment",
    "PaymentRemote",
    "OrderStatus",
    "Delivery",
    "DeliveryOfDistrict",
    "StockLevel",
];

/// The texts that make tables.
pub fn tables(partitioning: Partitioning, exact_money: bool) -> Vec<String> {
    let money = if exact_money { "DECIMAL" } else { "FLOAT" };
    let partitioned = match partitioning {
        Partitioning::Warehouse => BY_WAREHOUSE,
        Partitioning::District => BY_DISTRICT,
    };
    vec![TABLES.replace("$MONEY", money), partitioned.to_string()]
}

/// The texts that make procedures in the place of those of another form.
pub fn procedures(partitioning: Partitioning, form: &Form) -> Vec<String> {
    let dropped = NAMES.map(|name| format!("DROP PROCEDURE {name} IF EXISTS;\n")).concat();
    let made = match partitioning {
        Partitioning::Warehouse => PROCEDURES_BY_WAREHOUSE,
        Partitioning::District => PROCEDURES_BY_DISTRICT,
    };
    let made = match form {
        Form::Java(_) => Form::in_package(made, "tpcc"),
        Form::Native | Form::Sql => made.to_string(),
    };
    vec![dropped, made]
}

/// The call of Order-Status and its like; what a session calls for a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    partitioning: Partitioning,
    delivery: Delivery,
}

impl Calls {
    /// For a way to partition and a way to deliver.
    pub fn new(partitioning: Partitioning, delivery: Delivery) -> Calls {
        Calls { partitioning, delivery }
    }

    /// For an order whose items are all of its own warehouse, or not.
    pub fn new_order(&self, is_local: bool) -> &'static str {
        match (self.partitioning, is_local) {
            (Partitioning::Warehouse, true) => "NewOrder",
            _ => "NewOrderRemote",
        }
    }

    /// For a customer of the own warehouse, or not.
    pub fn payment(&self, is_local: bool) -> &'static str {
        match (self.partitioning, is_local) {
            (Partitioning::Warehouse, true) => "Payment",
            _ => "PaymentRemote",
        }
    }

    /// For deliveries.
    pub fn delivery(&self) -> &'static str {
        match self.delivery {
            Delivery::Split => "DeliveryOfDistrict",
            Delivery::Original | Delivery::LeftOut => "Delivery",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_of_the_harness_has_the_same_tables() {
        let text = include_str!("../../../../clients/pytpcc/lockstepdriver.sql");
        let tables = tables(Partitioning::Warehouse, false).concat();
        assert_eq!(text, tables + &procedures(Partitioning::Warehouse, &Form::Native)[1]);
    }
}
