//! What the server knows: the keys, and which connection waits for which of them. No I/O.

use std::collections::HashMap;

use super::contract;
use super::protocol::{Call, Reply, Request};
use super::table::{Table, Value};
use crate::error::Error;

/// A connection, by the order of its acceptance.
pub(super) type Id = u64;

/// Keys, values and waiting gets.
#[derive(Default)]
pub(super) struct Service {
    table: Table,
    /// Who waits for a key that is absent. No list is empty.
    waiting: HashMap<String, Vec<Id>>,
}

impl Service {
    /// Serves a request of `id`, and appends the replies that it causes: its own, unless it has to wait, and those to
    /// whoever waited for the key.
    pub(super) fn serve(&mut self, id: Id, request: Request<'_>, replies: &mut Vec<(Id, Reply)>) {
        let reply = self.call(request).unwrap_or_else(|e| Some(Reply::Refused(e.to_string())));
        match reply {
            Some(reply) => replies.push((id, reply)),
            None => self.waiting.entry(request.key.to_owned()).or_default().push(id),
        }
        if !matches!(request.call, Call::Get | Call::Delete) {
            self.wake(request.key, replies);
        }
    }

    /// Forgets that `id` waits for a key.
    pub(super) fn forget(&mut self, id: Id, key: &str) {
        if let Some(ids) = self.waiting.get_mut(key) {
            ids.retain(|waiting| *waiting != id);
            if ids.is_empty() {
                self.waiting.remove(key);
            }
        }
    }

    /// `None`: has to wait.
    fn call(&mut self, request: Request<'_>) -> Result<Option<Reply>, Error> {
        let key = request.key;
        contract::check_key(key)?;
        let reply = match request.call {
            Call::Get => return Ok(self.table.get(key).map(Reply::Value)),
            Call::Set(value) => {
                contract::check(key, value)?;
                self.table.set(key, value.into());
                Reply::Done
            }
            Call::Add(amount) => Reply::Number(self.table.add(key, amount)?),
            Call::CompareAndSet(expected, desired) => {
                contract::check(key, desired)?;
                let is_expected = |held: Option<&[u8]>| expected.is_met_by(held);
                let (held, _) = self.table.set_if(key, is_expected, || Value::from(desired));
                held.map_or(Reply::Absent, Reply::Value)
            }
            Call::Delete => match self.table.delete(key) {
                true => Reply::Done,
                false => Reply::Absent,
            },
        };
        Ok(Some(reply))
    }

    fn wake(&mut self, key: &str, replies: &mut Vec<(Id, Reply)>) {
        let Some(value) = self.table.get(key) else { return };
        for id in self.waiting.remove(key).into_iter().flatten() {
            replies.push((id, Reply::Value(value.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(service: &mut Service, id: Id, key: &str, call: Call<'_>) -> Vec<(Id, Reply)> {
        let mut replies = Vec::new();
        service.serve(id, Request { key, call }, &mut replies);
        replies
    }

    #[test]
    fn a_waiting_get_is_answered_by_the_set_unless_it_is_forgotten() {
        let service = &mut Service::default();
        assert_eq!(serve(service, 1, "k", Call::Get), []);
        assert_eq!(serve(service, 2, "k", Call::Get), []);
        service.forget(1, "k");
        let value = Reply::Value(Value::from(&b"v"[..]));
        assert_eq!(serve(service, 3, "k", Call::Set(b"v")), [(3, Reply::Done), (2, value)]);
        assert!(service.waiting.is_empty());
    }

    #[test]
    fn bad_requests_are_refused_and_change_nothing() {
        let service = &mut Service::default();
        assert!(matches!(serve(service, 1, "", Call::Get)[..], [(1, Reply::Refused(_))]));
        serve(service, 1, "k", Call::Set(b"x"));
        assert!(matches!(serve(service, 1, "k", Call::Add(1))[..], [(1, Reply::Refused(_))]));
        assert_eq!(service.table.get("k").as_deref(), Some(&b"x"[..]));
    }
}
