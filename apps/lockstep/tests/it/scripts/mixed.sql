insert into batched values (1); insert into batched values (2);
delete from batched where i = 1;
