select 1 from nowhere;
echo goes on
