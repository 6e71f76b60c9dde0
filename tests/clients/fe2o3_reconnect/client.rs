//! fe2o3-amqp with default settings: a sender and a receiver on `orders`. The library never reconnects: the application
//! does, a tenth of a second after a call failed.

use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use std::error::Error;
use std::time::Duration;

async fn serve(url: &str) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open("client", url).await?;
    let mut session = Session::begin(&mut connection).await?;
    let _sender = Sender::attach(&mut session, "sender", "orders").await?;
    let mut receiver = Receiver::attach(&mut session, "receiver", "orders").await?;
    receiver.recv::<Value>().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).expect("the router's URL");
    loop {
        println!("{:?}", serve(&url).await.map_err(|error| error.to_string()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
