//! Workers that are in touch with the store all the time, and hear of its epoch by whatever they ask.

use windlass_core::time::Time;

use crate::server::{Flaw, hear};
use crate::world::{Worker, World};

/// A worker hears which instance of the store there is. When it is another than before, it renews all that it holds, and ends what
/// is lost.
pub fn hear_instance(world: &mut World, worker: usize, flaw: Flaw) {
    world.hear_due[worker] = false;
    let number = world.book.epoch().number;
    let is_another = std::mem::replace(&mut world.heard[worker], number) != number;
    let Worker::Holding(lease) = world.workers[worker] else { return };
    if !is_another || flaw == Flaw::AnotherInstanceRenewsNothing {
        return;
    }
    let (now, answer) = (world.now, world.book.renew(&[lease], world.store_now()));
    if answer.renewed.is_empty() {
        world.workers[worker] = Worker::Idle;
        return;
    }
    let still_until = answer.still.first().map_or(Time::MIN, |(_, ms)| now.plus_ms(*ms as i64));
    hear(world, worker, lease, (now, still_until), flaw);
}
