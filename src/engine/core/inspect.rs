//! For tests: whether what must always be true of a core is true.
#![forbid(unsafe_code)]

use super::Core;
use crate::engine::limits::Limits;
use crate::engine::peer::{LinkState, OpRef, Sink};
use crate::link::frame::Kind;

impl Core {
    /// Checks what must hold between any two calls.
    pub(in crate::engine) fn audit(&self) {
        for (peer, link) in self.peers.iter().enumerate() {
            let mut outstanding = 0;
            let mut owed = 0;
            for (id, world) in &self.worlds {
                let Some(rank) = world.members.rank(peer) else { continue };
                let member = &world.state[rank as usize];
                assert!(
                    member.outstanding <= self.limits.world_credits(),
                    "a world holds more than its share of credits"
                );
                assert!(member.owed <= member.held, "more is owed than was held");
                outstanding += member.outstanding;
                owed += member.owed;
                let kept = self.parked(*id, peer);
                assert!(kept + member.owed <= member.held, "{kept} bytes of peer {peer} are kept");
                assert!(member.held <= self.limits.world_credits(), "more is held than allowed");
            }
            assert_eq!(link.credits + outstanding, self.limits.credits, "credits for peer {peer}");
            assert_eq!(link.owed, owed, "owed to peer {peer}");
        }
        self.audit_places();
        let active: usize =
            self.worlds.values().map(super::super::world::World::active_count).sum();
        assert_eq!(active, self.ops.iter().flatten().count(), "operations under way");
        assert_eq!(active, self.ops.len() - self.vacant.len(), "places of operations");
    }

    /// Bytes with their frames' cost that are kept in a world for a peer.
    fn parked(&self, id: u64, peer: usize) -> usize {
        let early = self.early.iter(id);
        let early = early.filter(|e| e.peer == peer && e.header.kind == Kind::Eager);
        let mut bytes: usize = early.map(|e| e.payload.len() + Limits::FRAME_CREDITS).sum();
        for op in self.ops.iter().flatten().filter(|op| op.world == id) {
            let parked = op.run.parts.iter().flat_map(|part| &part.parked);
            let of_peer = parked.filter(|p| op.members.peer(p.rank) == peer);
            bytes += of_peer.map(|p| p.payload.len() + Limits::FRAME_CREDITS).sum::<usize>();
        }
        bytes
    }

    /// Nothing points into the memory of an operation that has ended.
    fn audit_places(&self) {
        let is_active = |op: &OpRef| self.under_way(*op).is_some();
        for link in &self.peers {
            let body = link.body.as_ref().map(|body| body.op);
            assert!(body.iter().all(is_active), "what is written is of an ended operation");
            if let Some(Sink::Step { op, .. }) = link.incoming.as_ref().map(|i| &i.sink) {
                assert!(is_active(op), "what comes in is for an ended operation");
            }
        }
    }

    /// Credits that a world's messages hold at a peer, and those that the peer's messages hold here.
    pub(in crate::engine) fn credits_of(&self, id: u64, peer: usize) -> Option<(usize, usize)> {
        let world = self.worlds.get(&id)?;
        let rank = world.members.rank(peer)?;
        let member = &world.state[rank as usize];
        let early = self.early.iter(id);
        let early = early.filter(|e| e.peer == peer && e.header.kind == Kind::Eager);
        let kept: usize = early.map(|e| e.payload.len() + Limits::FRAME_CREDITS).sum();
        assert_eq!(member.held, member.owed + kept, "credits held here");
        Some((member.outstanding, member.held))
    }

    /// Whether any operation is under way, or waits for its counterpart.
    pub(in crate::engine) fn has_operations(&self) -> bool {
        self.ops.len() > self.vacant.len() || self.unmatched > 0
    }

    /// Through how many ranks the news of a world's failure have come here.
    pub(in crate::engine) fn hops_of(&self, world: u64) -> Option<u32> {
        self.grave(world).map(|grave| grave.hops)
    }

    /// Whether the link to a peer has been lost.
    pub(in crate::engine) fn has_lost(&self, peer: usize) -> bool {
        self.peers[peer].state == LinkState::Gone
    }

    /// Ordered operations of a world that are under way, and that are queued.
    pub(in crate::engine) fn operations_of(&self, world: u64) -> (usize, usize) {
        let world = self.worlds.get(&world);
        world.map_or((0, 0), |world| (world.active_count(), world.queued.len()))
    }

    /// Bytes that are parked for a world's operations that have not been called.
    pub(in crate::engine) fn early_bytes(&self, world: u64) -> usize {
        self.early.iter(world).map(|early| early.payload.len()).sum()
    }

    /// The states of all links, operations under way and frames kept, for a message about a hang.
    pub(in crate::engine) fn describe(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for (peer, link) in self.peers.iter().enumerate() {
            if link.state != LinkState::Idle {
                let output = link.output_pending();
                let _ = writeln!(
                    out,
                    "  link {peer}: {:?} credits {} output {output} ready {}",
                    link.state,
                    link.credits,
                    link.ready.len()
                );
            }
        }
        for op in self.ops.iter().flatten().take(4) {
            let _ = writeln!(
                out,
                "  world {:x} {:?} {:?} heard {:?}",
                op.world,
                op.name,
                op.program.plan().shape,
                op.run.checked
            );
            for part in &op.run.parts {
                let open = part.steps.iter().enumerate().filter(|(_, s)| s.done < s.length);
                for (index, state) in open.take(5) {
                    {
                        let step = &op.program.plan().steps[index];
                        let _ = writeln!(
                            out,
                            "    slice {} step {index} {:?}: {state:?} limit {}",
                            part.slice,
                            step.action,
                            op.limit(part, index)
                        );
                    }
                }
            }
        }
        for (id, world) in &self.worlds {
            let _ = writeln!(
                out,
                "  world {id:x}: next {} queued {} active {} early {:?}",
                world.next,
                world.queued.len(),
                world.active_count(),
                self.early
                    .iter(*id)
                    .map(|e| (e.peer, e.header.kind, e.header.class, e.header.operation))
                    .collect::<Vec<_>>()
            );
        }
        out
    }
}
