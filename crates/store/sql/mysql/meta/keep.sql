-- Sets what is not set yet; what stands wins. 1 name, 2 value.
INSERT IGNORE INTO meta (name, value) VALUES (?, ?)
