-- Said behind what makes a database: it is there, and the client is in none of the tests'.
USE mysql;
SELECT 'made';
