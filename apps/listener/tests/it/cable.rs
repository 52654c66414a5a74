//! The network between a program and the server.

use std::sync::Arc;
use std::time::Duration;

use crate::scene::hold;

/// A way through to the server that can be cut.
pub struct Cable {
    pub port: u16,
    cut: Arc<std::sync::atomic::AtomicBool>,
}

impl Cable {
    pub async fn to(target: String) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_cut = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, is_cut) = (target.clone(), is_cut.clone());
                tokio::spawn(async move {
                    if is_cut.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                    let Ok(mut far) = tokio::net::TcpStream::connect(target).await else { return };
                    let broken = async {
                        while !is_cut.load(std::sync::atomic::Ordering::Relaxed) {
                            hold(Duration::from_millis(20)).await;
                        }
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = broken => {}
                    }
                });
            }
        });
        Self { port, cut }
    }

    pub fn set_cut(&self, cut: bool) {
        self.cut.store(cut, std::sync::atomic::Ordering::Relaxed);
    }
}
