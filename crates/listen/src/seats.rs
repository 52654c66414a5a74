//! How many connections there are, in all and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::Limits;

/// The seats that are taken.
#[derive(Clone, Default)]
pub struct Seats(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Seats {
    /// A seat for a connection of `peer`, if there is one.
    pub fn take(&self, peer: IpAddr, limits: &Limits) -> Option<Seat> {
        let peer = peer.to_canonical();
        let peer_max =
            if peer.is_loopback() { limits.loopback_connections_max } else { limits.peer_connections_max };
        let mut seats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = seats.values().sum();
        let taken = seats.get(&peer).copied().unwrap_or(0);
        if total >= limits.connections_max || taken >= peer_max {
            return None;
        }
        seats.insert(peer, taken + 1);
        Some(Seat { seats: self.clone(), peer })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// One connection. Given back when dropped.
pub struct Seat {
    seats: Seats,
    peer: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.peer) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 70: one address cannot take all seats, nor all together more than there are.
    #[test]
    fn fault_70_seats_are_bounded() {
        let limits = Limits {
            connections_max: 3,
            peer_connections_max: 2,
            loopback_connections_max: 3,
            ..Limits::default()
        };
        let seats = Seats::default();
        let [a, b]: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let first = seats.take(a, &limits).unwrap();
        let _second = seats.take("::ffff:10.0.0.1".parse().unwrap(), &limits).unwrap();
        assert!(seats.take(a, &limits).is_none());
        let third = seats.take(b, &limits).unwrap();
        assert!(seats.take(b, &limits).is_none(), "all seats are taken");
        drop((first, third));
        assert_eq!(seats.taken(), 1);
        assert!(seats.take(a, &limits).is_some());
    }
}
