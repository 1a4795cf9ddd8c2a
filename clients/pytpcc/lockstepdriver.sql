CREATE TABLE warehouse (
  w_id SMALLINT NOT NULL, w_name VARCHAR(16), w_street_1 VARCHAR(32), w_street_2 VARCHAR(32),
  w_city VARCHAR(32), w_state VARCHAR(2), w_zip VARCHAR(9), w_tax FLOAT, w_ytd FLOAT,
  PRIMARY KEY (w_id)
);
CREATE TABLE district (
  d_id TINYINT NOT NULL, d_w_id SMALLINT NOT NULL, d_name VARCHAR(16), d_street_1 VARCHAR(32),
  d_street_2 VARCHAR(32), d_city VARCHAR(32), d_state VARCHAR(2), d_zip VARCHAR(9),
  d_tax FLOAT, d_ytd FLOAT, d_next_o_id INTEGER,
  PRIMARY KEY (d_w_id, d_id)
);
CREATE TABLE item (
  i_id INTEGER NOT NULL, i_im_id INTEGER, i_name VARCHAR(32), i_price FLOAT,
  i_data VARCHAR(64),
  PRIMARY KEY (i_id)
);
CREATE TABLE customer (
  c_id INTEGER NOT NULL, c_d_id TINYINT NOT NULL, c_w_id SMALLINT NOT NULL,
  c_first VARCHAR(32), c_middle VARCHAR(2), c_last VARCHAR(32), c_street_1 VARCHAR(32),
  c_street_2 VARCHAR(32), c_city VARCHAR(32), c_state VARCHAR(2), c_zip VARCHAR(9),
  c_phone VARCHAR(32), c_since TIMESTAMP, c_credit VARCHAR(2), c_credit_lim FLOAT,
  c_discount FLOAT, c_balance FLOAT, c_ytd_payment FLOAT, c_payment_cnt INTEGER,
  c_delivery_cnt INTEGER, c_data VARCHAR(500),
  PRIMARY KEY (c_w_id, c_d_id, c_id)
);
CREATE INDEX idx_customer ON customer (c_w_id, c_d_id, c_last, c_first, c_id);
CREATE TABLE history (
  h_c_id INTEGER, h_c_d_id TINYINT, h_c_w_id SMALLINT, h_d_id TINYINT NOT NULL,
  h_w_id SMALLINT NOT NULL, h_date TIMESTAMP, h_amount FLOAT, h_data VARCHAR(32)
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
  ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount FLOAT, ol_dist_info VARCHAR(32),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
);
PARTITION TABLE warehouse ON COLUMN w_id;
PARTITION TABLE district ON COLUMN d_w_id;
PARTITION TABLE customer ON COLUMN c_w_id;
PARTITION TABLE history ON COLUMN h_w_id;
PARTITION TABLE stock ON COLUMN s_w_id;
PARTITION TABLE orders ON COLUMN o_w_id;
PARTITION TABLE new_order ON COLUMN no_w_id;
PARTITION TABLE order_line ON COLUMN ol_w_id;
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
