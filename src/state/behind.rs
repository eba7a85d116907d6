//! Work that would hold up who asks for it, one piece after the other on a thread that may block.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// A piece of work. It may also be dropped, when the runtime ends before its turn comes: what must be done all the same
/// belongs into the destructor of something that it holds.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// The work of one service. At most one thread is at it: a list with a thousand groups must not start hundreds of them.
#[derive(Default)]
pub(crate) struct Behind(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    running: bool,
}

impl Behind {
    /// Adds a piece. It may not panic.
    pub(crate) fn add(self: &Arc<Self>, runtime: &Handle, work: Work) {
        let mut queue = self.0.lock();
        queue.waiting.push_back(work);
        if std::mem::replace(&mut queue.running, true) {
            return;
        }
        drop(queue);
        let turn = Turn(Arc::clone(self));
        runtime.spawn_blocking(move || {
            while let Some(work) = turn.0.next() {
                work();
            }
        });
    }

    fn next(&self) -> Option<Work> {
        let mut queue = self.0.lock();
        let work = queue.waiting.pop_front();
        queue.running = work.is_some();
        work
    }
}

/// Whose turn it is to work: when it goes away undone, with its runtime, so does what waits.
struct Turn(Arc<Behind>);

impl Drop for Turn {
    fn drop(&mut self) {
        while self.0.next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_in_order_and_by_one_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let behind = Arc::new(Behind::default());
        let (send, receive) = std::sync::mpsc::channel();
        for round in 0..2 {
            for number in 0..100 {
                let send = send.clone();
                let work = move || send.send((round, number, std::thread::current().id())).unwrap();
                behind.add(runtime.handle(), Box::new(work));
            }
            let done: Vec<_> = receive.iter().take(100).collect();
            assert!(done.iter().map(|(_, number, _)| *number).eq(0..100), "{done:?}");
            assert!(done.iter().all(|(of, _, thread)| *of == round && *thread == done[0].2));
            assert_ne!(done[0].2, std::thread::current().id());
        }
    }

    #[test]
    fn what_a_runtime_leaves_undone_is_dropped_and_the_next_one_goes_on() {
        struct Held(std::sync::mpsc::Sender<&'static str>);
        impl Drop for Held {
            fn drop(&mut self) {
                self.0.send("dropped").unwrap();
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ended = runtime.handle().clone();
        drop(runtime);
        let behind = Arc::new(Behind::default());
        let (send, receive) = std::sync::mpsc::channel();
        let held = Held(send);
        behind.add(&ended, Box::new(move || held.0.send("done").unwrap()));
        assert_eq!(receive.iter().collect::<Vec<_>>(), ["dropped"]);
        let (send, receive) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        behind.add(runtime.handle(), Box::new(move || send.send("done").unwrap()));
        assert_eq!(receive.iter().collect::<Vec<_>>(), ["done"]);
    }
}
