-- One transaction: what follows uses what was made before it.
create table batched (i int not null);
create index batched_i on batched (i);
