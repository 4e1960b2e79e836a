//! A worker and its tasks in one program: inserts a few tasks, runs them as they fire, ends when all are done.
//! Needs a server: `cargo run --release -- dev`, then `cargo run -p punctual-sdk --example worker`.

use std::sync::Arc;
use std::time::Duration;

use punctual_sdk::{Client, HandlerError, InsertTask, Task, Worker, json};
use tokio::sync::Semaphore;

const GREETINGS: u32 = 5;

#[expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    let queue = format!("sdk-example-{}", std::process::id());
    insert(&client, &queue).await?;

    let done = Arc::new(Semaphore::new(0));
    let finished = done.clone();
    let worker = Worker::new(client)
        .queue(queue)
        .concurrency(4)
        .handle("greet", move |task: Task| {
            let finished = finished.clone();
            async move {
                let name: String = task.payload()?;
                let late_ms = task.fired_at_ms() - task.execute_at_ms();
                println!("hello, {name} (attempt {}, fired {late_ms} ms after its time)", task.attempt());
                finished.add_permits(1);
                Ok(format!("greeted {name}"))
            }
        })
        .handle("flaky", |task: Task| async move {
            println!("flaky, attempt {}", task.attempt());
            if task.attempt() == 1 { Err(HandlerError::failed("not the first time")) } else { Ok(()) }
        });

    let shutdown = worker.shutdown();
    let wait_for_all = async {
        let all = done.acquire_many(GREETINGS);
        let _ = tokio::time::timeout(Duration::from_secs(30), all).await;
        shutdown.cancel();
    };
    let (worked, ()) = tokio::join!(worker.run(), wait_for_all);
    println!("{:?}", worked?);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]
async fn insert(client: &Client, queue: &str) -> Result<(), Box<dyn std::error::Error>> {
    let flaky = InsertTask { kind: Some("flaky".into()), max_attempts: Some(3), ..InsertTask::new(queue) };
    let flaky = client.insert(&flaky).await?;
    println!("inserted {}", flaky.r#ref);
    let greetings: Vec<_> = (1..=GREETINGS)
        .map(|n| {
            let payload = json(&format!("visitor {n}"))?;
            let (kind, delay_ms) = (Some("greet".into()), Some(i64::from(n) * 400));
            Ok(InsertTask { kind, delay_ms, payload: Some(payload), ..InsertTask::new(queue) })
        })
        .collect::<Result<_, serde_json::Error>>()?;
    for item in client.insert_batch(&greetings).await? {
        if let Some(error) = item.error {
            return Err(Box::new(error));
        }
    }
    Ok(())
}
