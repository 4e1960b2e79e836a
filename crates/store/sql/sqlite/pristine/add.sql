-- One row into a table. Its columns in order; {table}: its name, {columns}: a mark each.
INSERT INTO "{table}" VALUES ({columns})
