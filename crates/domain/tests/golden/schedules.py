"""Makes schedules.txt: when 200 cron expressions run in 12 zones around every change of their clocks in four years.

    pip install cronsim==2.8 tzdata==2026.6
    python3 schedules.py > schedules.txt
    python3 schedules.py --show Europe/Berlin '30 2 * * *'

cronsim (which follows Debian's cron) reads the fields and says which days match. Which instants that are is walked through
second by second of the time line, by the rule in docs/schedules.md, and compared with what cronsim itself iterates over;
where the two differ is counted by reason in the head of the file, and the walk is what counts.
"""

import sys
import zoneinfo
from datetime import datetime, timedelta, timezone

from cronsim import CronSim

UTC = timezone.utc
ZONES = [
    "Europe/Berlin", "Europe/London", "America/New_York", "Asia/Beirut", "America/Havana", "America/Santiago",
    "Australia/Lord_Howe", "Australia/Sydney", "Africa/Cairo", "Africa/Casablanca", "Antarctica/Troll", "Atlantic/Azores",
]
YEARS = range(2022, 2026)
WINDOW_S = 13 * 3600


def expressions():
    """200 of them, around the hours at which clocks change."""
    found = []
    for hour in (0, 1, 2, 3, 4):
        for minute in (0, 1, 15, 29, 30, 31, 59):
            found.append(f"{minute} {hour} * * *")
    for hour in (0, 1, 2, 3):
        for minute in ("*", "*/2", "*/7", "*/15", "*/30", "0-29", "15,45", "30-59/10"):
            found.append(f"{minute} {hour} * * *")
    for hour in ("*", "*/2", "*/3", "*/5", "*/6", "1-3", "0-4", "1,2,3", "0-23", "1-3/2"):
        for minute in ("0", "30", "*/10", "59", "5,35"):
            found.append(f"{minute} {hour} * * *")
    for day in ("* * 0", "* * 7", "* * SUN", "* * 1-5", "* 3,4,10,11 *", "L * *", "1 * *", "25-31 10 *", "* * 0#1", "* * 0L",
                "* 3 0", "1-7 * 0", "* * 6,0", "* 10 6,0", "LW * *"):
        for time in ("0 0", "30 1", "30 2", "0 3", "*/20 *"):
            found.append(f"{time} {day}")
    for six in ("0 */30 * * * *", "*/30 * 2 * * *", "15 */20 1-3 * * *", "0 0 */2 * * *", "30 59 * * * *", "0 * 1 * * *",
                "0,30 */15 2,3 * * 0", "0 0 * * * *"):
        found.append(six)
    assert len(found) == 200 and len(set(found)) == 200, (len(found), len(set(found)))
    return found


def changes(zone):
    """Instants at which the offset changes, epoch seconds."""
    found, at = [], datetime(YEARS[0], 1, 1, tzinfo=UTC)
    end = datetime(YEARS[-1] + 1, 1, 1, tzinfo=UTC)
    while at < end:
        later = at + timedelta(minutes=30)
        if at.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(int(later.timestamp()))
        at = later
    return found


def fields(expression):
    parts = expression.split()
    parts = ["0"] + parts if len(parts) == 5 else parts
    return parts, CronSim(expression, datetime(2022, 1, 1, tzinfo=UTC))


def matches(sim, local):
    if local.second not in sim.seconds or local.minute not in sim.minutes or local.hour not in sim.hours:
        return False
    return local.month in sim.months and sim.match_day(local.date())


def seconds(sim, first, end):
    """From whole minutes on: no offset has seconds."""
    return (minute + second for minute in range(first, end, 60) for second in sorted(sim.seconds))


def walk(expression, zone, change):
    """The rule: instants in (change - window, change + window]."""
    parts, sim = fields(expression)
    is_fixed = not parts[1].startswith("*") and not parts[2].startswith("*")
    first = (change - WINDOW_S) // 60 * 60
    found = []
    if is_fixed:
        # Over the clock on the wall, from well before to well after.
        start = datetime.fromtimestamp(first - 7200, UTC).astimezone(zone).replace(tzinfo=None)
        for nth in seconds(sim, 0, 2 * WINDOW_S + 4 * 7200):
            local = start + timedelta(seconds=nth)
            if not matches(sim, local):
                continue
            aware = local.replace(tzinfo=zone, fold=0)
            while aware.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
                # Jumped over: the first minute that there is.
                local += timedelta(minutes=1)
                local = local.replace(second=0)
                aware = local.replace(tzinfo=zone, fold=0)
            found.append(int(aware.timestamp()))
    else:
        for at in seconds(sim, first, change + WINDOW_S + 1):
            if matches(sim, datetime.fromtimestamp(at, UTC).astimezone(zone).replace(tzinfo=None)):
                found.append(at)
    return sorted({it for it in found if change - WINDOW_S < it <= change + WINDOW_S})


def iterated(expression, zone, change):
    """What cronsim says itself."""
    start = datetime.fromtimestamp(change - WINDOW_S, UTC).astimezone(zone)
    found = []
    for it in CronSim(expression, start):
        at = int(it.timestamp())
        if at > change + WINDOW_S:
            return found
        found.append(at)


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def main():
    zone_name, expression = sys.argv[2:4] if sys.argv[1:2] == ["--show"] else (None, None)
    if zone_name:
        zone = zoneinfo.ZoneInfo(zone_name)
        for change in changes(zone):
            print("around", datetime.fromtimestamp(change, zone).isoformat())
            for at in walk(expression, zone, change):
                print("  ", at, datetime.fromtimestamp(at, zone).isoformat())
        return
    body, differences = [], {}
    for name in ZONES:
        zone = zoneinfo.ZoneInfo(name)
        instants = changes(zone)
        body.append(f"zone\t{name}\t{','.join(map(str, instants))}")
        for expression in expressions():
            found = []
            for change in instants:
                walked = walk(expression, zone, change)
                if walked != iterated(expression, zone, change):
                    kind = "six fields" if len(expression.split()) == 6 else "five fields"
                    differences.setdefault((name, kind), set()).add(expression)
                found += walked
            body.append(f"{len(found)}\t{fnv(','.join(map(str, found)))}\t{expression}")
    print("# Made by schedules.py; do not edit. After a line with a zone and its changes (epoch s): number of instants within")
    print("# 13 hours of them, FNV-1a of the instants (epoch s, with commas between), expression.")
    for (name, kind), those in sorted(differences.items()):
        print(f"# cronsim's own iteration differs in {name}, {kind}: {len(those)} expressions, e.g. {sorted(those)[0]!r}")
    print("\n".join(body))


main()
