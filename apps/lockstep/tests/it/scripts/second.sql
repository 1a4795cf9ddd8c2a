insert into from_file values (2);
