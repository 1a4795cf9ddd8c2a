-- TATP for PostgreSQL: the tables that LockstepDB has, and a function for each transaction.
CREATE TABLE subscriber (
  s_id bigint NOT NULL, sub_nbr varchar(15) NOT NULL,
  bit_1 smallint, bit_2 smallint, bit_3 smallint, bit_4 smallint, bit_5 smallint,
  bit_6 smallint, bit_7 smallint, bit_8 smallint, bit_9 smallint, bit_10 smallint,
  hex_1 smallint, hex_2 smallint, hex_3 smallint, hex_4 smallint, hex_5 smallint,
  hex_6 smallint, hex_7 smallint, hex_8 smallint, hex_9 smallint, hex_10 smallint,
  byte2_1 smallint, byte2_2 smallint, byte2_3 smallint, byte2_4 smallint, byte2_5 smallint,
  byte2_6 smallint, byte2_7 smallint, byte2_8 smallint, byte2_9 smallint, byte2_10 smallint,
  msc_location bigint, vlr_location bigint
) WITH (fillfactor = 80);
CREATE TABLE access_info (
  s_id bigint NOT NULL, ai_type smallint NOT NULL, data1 smallint, data2 smallint,
  data3 varchar(3), data4 varchar(5)
);
CREATE TABLE special_facility (
  s_id bigint NOT NULL, sf_type smallint NOT NULL, is_active smallint NOT NULL,
  error_cntrl smallint, data_a smallint, data_b varchar(5)
) WITH (fillfactor = 80);
CREATE TABLE call_forwarding (
  s_id bigint NOT NULL, sf_type smallint NOT NULL, start_time smallint NOT NULL,
  end_time smallint, numberx varchar(15)
) WITH (fillfactor = 80);
-- indexes
ALTER TABLE subscriber ADD PRIMARY KEY (s_id);
CREATE UNIQUE INDEX sub_nbr_idx ON subscriber (sub_nbr);
ALTER TABLE access_info ADD PRIMARY KEY (s_id, ai_type);
ALTER TABLE special_facility ADD PRIMARY KEY (s_id, sf_type);
ALTER TABLE call_forwarding ADD PRIMARY KEY (s_id, sf_type, start_time);

CREATE FUNCTION getsubscriberdata(who bigint) RETURNS SETOF subscriber
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT * FROM subscriber WHERE s_id = who;
END $$;

CREATE FUNCTION getnewdestination(who bigint, facility integer, starts integer, ends integer)
RETURNS SETOF varchar
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT cf.numberx FROM special_facility sf, call_forwarding cf
    WHERE sf.s_id = who AND sf.sf_type = facility AND sf.is_active = 1
    AND cf.s_id = sf.s_id AND cf.sf_type = sf.sf_type AND cf.start_time <= starts
    AND ends < cf.end_time;
END $$;

CREATE FUNCTION getaccessdata(who bigint, kind integer)
RETURNS TABLE (first smallint, second smallint, third varchar, fourth varchar)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT data1, data2, data3, data4 FROM access_info
    WHERE s_id = who AND ai_type = kind;
END $$;

CREATE FUNCTION updatesubscriberdata(who bigint, first_bit integer, facility integer, data integer)
RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE subscriber SET bit_1 = first_bit WHERE s_id = who;
  UPDATE special_facility SET data_a = data WHERE s_id = who AND sf_type = facility;
  IF NOT FOUND THEN RAISE EXCEPTION 'there is no such row'; END IF;
  RETURN 1;
END $$;

CREATE FUNCTION updatelocationbynumber(location bigint, number varchar) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  changed bigint;
BEGIN
  UPDATE subscriber SET vlr_location = location WHERE sub_nbr = number;
  GET DIAGNOSTICS changed = ROW_COUNT;
  RETURN changed;
END $$;

CREATE FUNCTION insertcallforwardingbynumber(number varchar, facility integer, starts integer,
  ends integer, target varchar)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  who bigint;
BEGIN
  SELECT s_id INTO who FROM subscriber WHERE sub_nbr = number;
  PERFORM 1 FROM special_facility WHERE s_id = who AND sf_type = facility;
  IF NOT FOUND THEN RAISE EXCEPTION 'there is no such row'; END IF;
  INSERT INTO call_forwarding VALUES (who, facility, starts, ends, target);
  RETURN 1;
END $$;

CREATE FUNCTION deletecallforwardingbynumber(number varchar, facility integer, starts integer)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  who bigint;
  changed bigint;
BEGIN
  SELECT s_id INTO who FROM subscriber WHERE sub_nbr = number;
  DELETE FROM call_forwarding WHERE s_id = who AND sf_type = facility AND start_time = starts;
  GET DIAGNOSTICS changed = ROW_COUNT;
  RETURN changed;
END $$;

-- What the checks of a global index ask: its entries, which are read from the index.
CREATE VIEW "SUB_NBR_IDX#ENTRIES" AS SELECT sub_nbr FROM subscriber WHERE sub_nbr >= '';
