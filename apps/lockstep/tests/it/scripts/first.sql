-- Statements of a file, each a transaction of its own.
drop table from_file if exists;
create table from_file (i int not null);
insert into from_file values (1);
file 'tests/it/scripts/second.sql'
select count(*) as n from from_file;
exit
select 'never' from from_file;
