-- Which of these schedules stand at the step that is named, locked until the end of the transaction.
-- 1 the schedules (JSON: [id, step], by id).
SELECT schedule.id
FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', step BIGINT PATH '$[1]')) AS wanted
STRAIGHT_JOIN schedule FORCE INDEX (PRIMARY) ON schedule.id = wanted.id AND schedule.step = wanted.step
FOR UPDATE /*!80001 OF schedule */
