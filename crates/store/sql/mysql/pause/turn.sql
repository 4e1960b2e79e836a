-- From here on it holds to a later revision; waits for hand-overs under way. None: it does already. 1 and 2 revision.
UPDATE meta SET value = ? WHERE name = 'pause_epoch' AND value < ?
