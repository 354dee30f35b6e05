//! A gate that runs while a test does, in a thread of its own.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use tokio::sync::oneshot;

pub struct Running {
    /// In the order of the file.
    pub addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Running {
    pub fn start(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.toml");
        std::fs::write(&path, configuration).unwrap();
        let ((say, hear), (stop, stopped)) = (mpsc::channel(), oneshot::channel());
        let thread = std::thread::spawn(move || {
            let ready = |addresses: &[SocketAddr]| say.send(addresses.to_vec()).unwrap();
            thalweg_gate::run(&path, ready, async { _ = stopped.await }).unwrap();
        });
        let addresses = hear.recv().expect("the gate listens");
        Running { addresses, stop: Some(stop), thread: Some(thread), _folder: folder }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().expect("it runs").join();
        if !std::thread::panicking() {
            ended.expect("the gate ends without a panic");
        }
    }
}
