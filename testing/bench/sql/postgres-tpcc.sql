-- TPC-C for PostgreSQL: the tables that LockstepDB has, and a function for each transaction that
-- does what the native procedure does. Rows that many callers want are changed in an order that
-- is the same for all, so that nobody waits in a circle.
CREATE TABLE warehouse (
  w_id smallint NOT NULL, w_name varchar(16), w_street_1 varchar(32), w_street_2 varchar(32),
  w_city varchar(32), w_state varchar(2), w_zip varchar(9), w_tax float8, w_ytd float8
) WITH (fillfactor = 10);
CREATE TABLE district (
  d_id smallint NOT NULL, d_w_id smallint NOT NULL, d_name varchar(16), d_street_1 varchar(32),
  d_street_2 varchar(32), d_city varchar(32), d_state varchar(2), d_zip varchar(9),
  d_tax float8, d_ytd float8, d_next_o_id integer
) WITH (fillfactor = 10);
CREATE TABLE item (
  i_id integer NOT NULL, i_im_id integer, i_name varchar(32), i_price float8, i_data varchar(64)
);
CREATE TABLE customer (
  c_id integer NOT NULL, c_d_id smallint NOT NULL, c_w_id smallint NOT NULL,
  c_first varchar(32), c_middle varchar(2), c_last varchar(32), c_street_1 varchar(32),
  c_street_2 varchar(32), c_city varchar(32), c_state varchar(2), c_zip varchar(9),
  c_phone varchar(32), c_since timestamp, c_credit varchar(2), c_credit_lim float8,
  c_discount float8, c_balance float8, c_ytd_payment float8, c_payment_cnt integer,
  c_delivery_cnt integer, c_data varchar(500)
) WITH (fillfactor = 80);
CREATE TABLE history (
  h_c_id integer, h_c_d_id smallint, h_c_w_id smallint, h_d_id smallint NOT NULL,
  h_w_id smallint NOT NULL, h_date timestamp, h_amount float8, h_data varchar(32)
);
CREATE TABLE stock (
  s_i_id integer NOT NULL, s_w_id smallint NOT NULL, s_quantity integer NOT NULL,
  s_dist_01 varchar(32), s_dist_02 varchar(32), s_dist_03 varchar(32), s_dist_04 varchar(32),
  s_dist_05 varchar(32), s_dist_06 varchar(32), s_dist_07 varchar(32), s_dist_08 varchar(32),
  s_dist_09 varchar(32), s_dist_10 varchar(32), s_ytd integer, s_order_cnt integer,
  s_remote_cnt integer, s_data varchar(64)
) WITH (fillfactor = 80);
CREATE TABLE orders (
  o_id integer NOT NULL, o_c_id integer, o_d_id smallint NOT NULL, o_w_id smallint NOT NULL,
  o_entry_d timestamp, o_carrier_id integer, o_ol_cnt integer, o_all_local integer
) WITH (fillfactor = 80);
CREATE TABLE new_order (
  no_o_id integer NOT NULL, no_d_id smallint NOT NULL, no_w_id smallint NOT NULL
);
CREATE TABLE order_line (
  ol_o_id integer NOT NULL, ol_d_id smallint NOT NULL, ol_w_id smallint NOT NULL,
  ol_number integer NOT NULL, ol_i_id integer, ol_supply_w_id smallint,
  ol_delivery_d timestamp, ol_quantity integer, ol_amount float8, ol_dist_info varchar(32)
) WITH (fillfactor = 80);
-- indexes
ALTER TABLE warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE item ADD PRIMARY KEY (i_id);
ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
CREATE INDEX idx_customer ON customer (c_w_id, c_d_id, c_last, c_first, c_id);
ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id);
ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
CREATE INDEX idx_orders ON orders (o_w_id, o_d_id, o_c_id, o_id);
ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);

CREATE FUNCTION neworder(w integer, d integer, c integer, items integer[], suppliers integer[],
  quantities integer[])
RETURNS TABLE (order_number integer, discount float8, last_name varchar, credit varchar,
  w_rate float8, d_rate float8, item_name varchar, stock_left integer, brand text,
  price float8, amount float8)
LANGUAGE plpgsql AS $$
DECLARE
  line record;
  info varchar;
  s_text varchar;
  i_text varchar;
  is_local integer := 1;
BEGIN
  SELECT w_tax INTO w_rate FROM warehouse WHERE w_id = w;
  SELECT c_discount, c_last, c_credit INTO discount, last_name, credit FROM customer
    WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d
    RETURNING d_tax, d_next_o_id - 1 INTO d_rate, order_number;
  IF NOT w = ALL (suppliers) THEN is_local := 0; END IF;
  INSERT INTO orders VALUES
    (order_number, c, d, w, now(), NULL, array_length(items, 1), is_local);
  INSERT INTO new_order VALUES (order_number, d, w);
  FOR line IN
    SELECT l.i, l.s, l.q, l.place
    FROM unnest(items, suppliers, quantities) WITH ORDINALITY AS l (i, s, q, place)
    ORDER BY l.s, l.i
  LOOP
    SELECT i_price, i_name, i_data INTO price, item_name, i_text FROM item WHERE i_id = line.i;
    IF NOT FOUND THEN RAISE EXCEPTION 'Item number is not valid'; END IF;
    UPDATE stock SET
      s_quantity = s_quantity - line.q + CASE WHEN s_quantity >= line.q + 10 THEN 0 ELSE 91 END,
      s_ytd = s_ytd + line.q, s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + CASE WHEN line.s = w THEN 0 ELSE 1 END
    WHERE s_w_id = line.s AND s_i_id = line.i
    RETURNING s_quantity, s_data, CASE d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02
      WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
      WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
    INTO stock_left, s_text, info;
    amount := price * line.q;
    brand := CASE WHEN strpos(i_text, 'ORIGINAL') > 0 AND strpos(s_text, 'ORIGINAL') > 0
      THEN 'B' ELSE 'G' END;
    INSERT INTO order_line VALUES
      (order_number, d, w, line.place, line.i, line.s, NULL, line.q, amount, info);
    RETURN NEXT;
  END LOOP;
END $$;

CREATE FUNCTION payment(w integer, d integer, amount float8, c_w integer, c_d integer, c integer,
  name varchar)
RETURNS TABLE (w_place varchar, d_place varchar, customer_row customer)
LANGUAGE plpgsql AS $$
DECLARE
  w_called varchar;
  d_called varchar;
BEGIN
  IF c IS NULL THEN
    SELECT (array_agg(found.c_id))[(count(*) + 1) / 2] INTO c FROM (
      SELECT c_id FROM customer WHERE c_w_id = c_w AND c_d_id = c_d AND c_last = name
      ORDER BY c_first, c_id) AS found;
  END IF;
  UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE WHEN c_credit = 'BC'
      THEN left(concat_ws(' ', c, c_d, c_w, d, w, amount) || '|' || c_data, 500)
      ELSE c_data END
  WHERE c_w_id = c_w AND c_d_id = c_d AND c_id = c
  RETURNING customer.* INTO customer_row;
  IF NOT FOUND THEN RAISE EXCEPTION 'there is no such customer'; END IF;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d
    RETURNING d_name, concat_ws(' ', d_street_1, d_street_2, d_city, d_state, d_zip)
    INTO d_called, d_place;
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w
    RETURNING w_name, concat_ws(' ', w_street_1, w_street_2, w_city, w_state, w_zip)
    INTO w_called, w_place;
  INSERT INTO history VALUES
    (c, c_d, c_w, d, w, now(), amount, w_called || '    ' || d_called);
  RETURN NEXT;
END $$;

CREATE FUNCTION orderstatus(w integer, d integer, c integer, name varchar)
RETURNS TABLE (customer_number integer, first_name varchar, middle_name varchar,
  last_name varchar, balance float8, order_number integer, carrier integer, entered timestamp,
  supplier smallint, item integer, quantity integer, amount float8, delivered timestamp)
LANGUAGE plpgsql AS $$
BEGIN
  IF c IS NULL THEN
    SELECT (array_agg(found.c_id))[(count(*) + 1) / 2] INTO c FROM (
      SELECT c_id FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name
      ORDER BY c_first, c_id) AS found;
  END IF;
  SELECT c_id, c_first, c_middle, c_last, c_balance
    INTO customer_number, first_name, middle_name, last_name, balance
    FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  SELECT o_id, o_carrier_id, o_entry_d INTO order_number, carrier, entered FROM orders
    WHERE o_w_id = w AND o_d_id = d AND o_c_id = c ORDER BY o_id DESC LIMIT 1;
  FOR supplier, item, quantity, amount, delivered IN
    SELECT ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = order_number
  LOOP
    RETURN NEXT;
  END LOOP;
END $$;

CREATE FUNCTION delivery(w integer, carrier integer)
RETURNS TABLE (district_number integer, order_number integer)
LANGUAGE plpgsql AS $$
DECLARE
  who integer;
  total float8;
BEGIN
  FOR district_number IN 1..10 LOOP
    DELETE FROM new_order WHERE no_w_id = w AND no_d_id = district_number AND no_o_id = (
      SELECT no_o_id FROM new_order WHERE no_w_id = w AND no_d_id = district_number
      ORDER BY no_o_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING no_o_id INTO order_number;
    CONTINUE WHEN NOT FOUND;
    UPDATE orders SET o_carrier_id = carrier
      WHERE o_w_id = w AND o_d_id = district_number AND o_id = order_number
      RETURNING o_c_id INTO who;
    WITH lines AS (
      UPDATE order_line SET ol_delivery_d = now()
      WHERE ol_w_id = w AND ol_d_id = district_number AND ol_o_id = order_number
      RETURNING ol_amount)
    SELECT sum(ol_amount) INTO total FROM lines;
    UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
      WHERE c_w_id = w AND c_d_id = district_number AND c_id = who;
    RETURN NEXT;
  END LOOP;
END $$;

CREATE FUNCTION stocklevel(w integer, d integer, threshold integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  next_order integer;
  low bigint;
BEGIN
  SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = w AND d_id = d;
  SELECT count(DISTINCT s_i_id) INTO low FROM order_line, stock
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id < next_order AND ol_o_id >= next_order - 20
    AND s_w_id = w AND s_i_id = ol_i_id AND s_quantity < threshold;
  RETURN low;
END $$;

-- Where the work is done makes no difference here.
CREATE FUNCTION neworderremote(w integer, d integer, c integer, items integer[],
  suppliers integer[], quantities integer[])
RETURNS TABLE (order_number integer, discount float8, last_name varchar, credit varchar,
  w_rate float8, d_rate float8, item_name varchar, stock_left integer, brand text,
  price float8, amount float8)
LANGUAGE sql AS $$ SELECT * FROM neworder(w, d, c, items, suppliers, quantities) $$;
CREATE FUNCTION paymentremote(w integer, d integer, amount float8, c_w integer, c_d integer,
  c integer, name varchar)
RETURNS TABLE (w_place varchar, d_place varchar, customer_row customer)
LANGUAGE sql AS $$ SELECT * FROM payment(w, d, amount, c_w, c_d, c, name) $$;
