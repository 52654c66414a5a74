-- An index: nothing when it is not there, whether it can be used when it is. One whose building broke off cannot.
SELECT i.indisvalid AND i.indisready FROM pg_index i WHERE i.indexrelid = to_regclass($1)
