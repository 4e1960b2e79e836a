-- A table of numbers for the statements of tests: one column, `seq`. Braces: first, last.
(SELECT {first} - 1 + nth AS seq
FROM JSON_TABLE(CONCAT('[0', REPEAT(',0', {last} - {first}), ']'), '$[*]' COLUMNS (nth FOR ORDINALITY)) AS listed
) AS numbers
