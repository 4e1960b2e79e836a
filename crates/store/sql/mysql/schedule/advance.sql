-- Moves schedules on that are locked. 1 the schedules (JSON: [id, progress (JSON text), wake_at (ms, null: never)]).
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]', progress LONGTEXT CHARACTER SET utf8mb4 PATH '$[1]', wake_at BIGINT PATH '$[2]'
)) AS wanted
STRAIGHT_JOIN schedule FORCE INDEX (PRIMARY) ON schedule.id = wanted.id
SET schedule.step = schedule.step + 1, schedule.progress = wanted.progress, schedule.wake_at = wanted.wake_at
