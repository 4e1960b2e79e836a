"""The parts of a worker: slots, held leases, heartbeats, reports, and the pools that run handlers."""
