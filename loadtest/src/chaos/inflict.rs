//! Brings a fault about, and ends it. Says what could not be done; whether anything recovered is seen elsewhere.

use super::{
    plan::{PlannedFault, What},
    stack::{Member, Stack},
};
use crate::clock::now_us;
use anyhow::Context as _;
use punctual_test_servers::{Proxy, Way};
use std::time::Duration;

/// The time limit from SIGTERM to the end: a bounded drain, and a store that may be unavailable meanwhile.
const STOP_LIMIT_US: i64 = 90_000_000;
const POLL: Duration = Duration::from_millis(10);

/// The effect of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    AsPlanned,
    /// It cannot happen here, and why.
    Impossible(String),
    /// It happened, and something broke that must not, in words.
    Broke(String),
}

pub(crate) async fn begin(stack: &mut Stack, fault: &PlannedFault) -> anyhow::Result<Effect> {
    match fault.what {
        What::MariadbKill => mariadb(stack)?.kill(),
        What::MariadbPause => mariadb(stack)?.pause(),
        What::RedisKill => redis(stack)?.kill(),
        What::RedisPause => redis(stack)?.pause(),
        What::RedisFlush => {
            redis(stack)?.command(&["FLUSHALL"]).await;
        }
        What::EngineKill | What::EnginePause | What::EngineStop => {
            return begin_on_process(stack, fault).await;
        }
        What::DiskFull => return fill_disk(stack, fault).await,
        What::LogClosed => member(stack, fault)?.log.close(),
        What::LogStuck => member(stack, fault)?.log.fill(),
        What::Clock => set_clock(stack, fault, fault.by_ms)?,
        _ => ways(stack, fault).into_iter().for_each(|way| break_way(way, fault)),
    }
    Ok(Effect::AsPlanned)
}

pub(crate) async fn end(stack: &mut Stack, fault: &PlannedFault) -> anyhow::Result<Effect> {
    match fault.what {
        What::MariadbKill => mariadb(stack)?.start_again().await,
        What::MariadbPause => mariadb(stack)?.resume(),
        What::RedisKill => redis(stack)?.start_again().await,
        What::RedisPause => redis(stack)?.resume(),
        What::RedisFlush => {}
        What::EngineKill => member(stack, fault)?.engine.begin_again()?,
        What::EnginePause => member(stack, fault)?.engine.resume().await?,
        What::EngineStop => return start_when_stopped(member(stack, fault)?).await,
        What::DiskFull => member(stack, fault)?.disk.as_ref().context("it was filled")?.free()?,
        What::LogClosed | What::LogStuck => member(stack, fault)?.log.mend(),
        What::Clock => set_clock(stack, fault, 0)?,
        _ => ways(stack, fault).into_iter().for_each(|way| mend_way(way, fault)),
    }
    Ok(Effect::AsPlanned)
}

async fn begin_on_process(stack: &mut Stack, fault: &PlannedFault) -> anyhow::Result<Effect> {
    let engine = &mut member(stack, fault)?.engine;
    match fault.what {
        What::EngineKill => engine.kill().await?,
        What::EnginePause => engine.pause().await?,
        _ => engine.stop().await?,
    }
    Ok(Effect::AsPlanned)
}

/// An operator's restart: it must end by itself, and well.
async fn start_when_stopped(member: &mut Member) -> anyhow::Result<Effect> {
    let until_us = now_us() + STOP_LIMIT_US;
    let status = loop {
        match member.engine.ended()? {
            None if now_us() < until_us => tokio::time::sleep(POLL).await,
            status => break status,
        }
    };
    let broke = match status {
        Some(status) if status.success() => Effect::AsPlanned,
        Some(status) => Effect::Broke(format!("was asked to stop and ended with {status}")),
        None => {
            member.engine.kill().await?;
            Effect::Broke(format!(
                "was asked to stop and had not ended after {} s",
                STOP_LIMIT_US / 1_000_000
            ))
        }
    };
    member.engine.begin_again()?;
    Ok(broke)
}

/// Fills the disk. The log must be on the same disk: for that the engine is started again, unless it writes there
/// already.
async fn fill_disk(stack: &mut Stack, fault: &PlannedFault) -> anyhow::Result<Effect> {
    let why_not = stack.no_disk.clone().unwrap_or_default();
    let member = member(stack, fault)?;
    if member.disk.is_none() {
        return Ok(Effect::Impossible(why_not));
    }
    let mut done = Effect::AsPlanned;
    if !member.is_logging_to_disk {
        member.log_to_disk(true);
        member.engine.stop().await?;
        done = start_when_stopped(member).await?;
        member.engine.wait_until_ready().await?;
    }
    member.disk.as_ref().context("it is there")?.fill()?;
    Ok(done)
}

/// Restarts an engine whose log is on the disk, for a fault of the pipe, which it lacks.
pub(crate) async fn log_to_pipe(stack: &mut Stack, fault: &PlannedFault) -> anyhow::Result<Effect> {
    let is_of_log = matches!(fault.what, What::LogClosed | What::LogStuck);
    let member = match fault.engine {
        Some(_) if is_of_log => member(stack, fault)?,
        _ => return Ok(Effect::AsPlanned),
    };
    if !member.is_logging_to_disk {
        return Ok(Effect::AsPlanned);
    }
    member.log_to_disk(false);
    member.engine.stop().await?;
    let done = start_when_stopped(member).await?;
    member.engine.wait_until_ready().await?;
    Ok(done)
}

fn set_clock(stack: &mut Stack, fault: &PlannedFault, by_ms: i64) -> anyhow::Result<()> {
    member(stack, fault)?.clock.as_ref().context("an engine without a clock of its own")?.set(by_ms)
}

fn break_way(way: &Proxy, fault: &PlannedFault) {
    match fault.what {
        What::MysqlCut | What::RedisCut => way.set(Way::Cut),
        What::MysqlSilent | What::RedisSilent => way.set(Way::Silent),
        What::MysqlAnswersLost | What::RedisAnswersLost => way.set(Way::AnswersLost),
        What::MysqlVanish | What::RedisVanish => way.vanish(),
        What::MysqlOneSilent | What::RedisOneSilent => {
            let connections = way.connections();
            if let Some(one) = connections.get(fault.nth % connections.len().max(1)) {
                way.set_one(*one, Way::Silent);
            }
        }
        _ => way.set(Way::Slow(Duration::from_millis(fault.by_ms.unsigned_abs()))),
    }
}

fn mend_way(way: &Proxy, fault: &PlannedFault) {
    match fault.what {
        What::MysqlVanish | What::RedisVanish => way.reopen(),
        // A firewall that forgot a connection does not remember it.
        What::MysqlOneSilent | What::RedisOneSilent => {}
        // What was swallowed never comes: what follows would be taken for it.
        What::MysqlAnswersLost | What::RedisAnswersLost => {
            way.set_new(Way::Open);
            way.set_open(Way::Cut);
        }
        _ => way.set(Way::Open),
    }
}

/// The ways that the fault hits.
fn ways<'a>(stack: &'a Stack, fault: &PlannedFault) -> Vec<&'a Proxy> {
    let of = |member: &'a Member| {
        if fault.what.is_of_mysql_way() {
            member.databases.get(fault.database)
        } else {
            member.redis.as_ref()
        }
    };
    let is_hit = |n: usize| fault.engine.is_none_or(|engine| engine == n);
    stack
        .members
        .iter()
        .enumerate()
        .filter(|(n, _)| is_hit(*n))
        .filter_map(|(_, member)| of(member))
        .collect()
}

fn member<'a>(stack: &'a mut Stack, fault: &PlannedFault) -> anyhow::Result<&'a mut Member> {
    let n = fault.engine.context("a fault of an engine names it")?;
    stack.members.get_mut(n).context("there are as many engines as planned")
}

fn mariadb(stack: &Stack) -> anyhow::Result<&punctual_test_servers::MariaDb> {
    stack.mariadb.as_ref().context("there is a MariaDB")
}

fn redis(stack: &Stack) -> anyhow::Result<&punctual_test_servers::Redis> {
    stack.redis.as_ref().context("there is a Redis")
}
