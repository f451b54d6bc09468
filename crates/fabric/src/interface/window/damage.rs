//! Damage to packets of mapped windows. The bytes of each packet are built, damaged on either leg
//! (from the node to the hub, and from there to each target) and checked with the code of that
//! generation. The hub cuts packets through, so that damage on the first leg shows at the targets.

use weft_kernel::Streams;
use weft_protocol::window::{Command, DataPacket, Node, Payload};
use weft_units::Bytes;

use crate::interface::DetectionSettings;
use crate::link::{ErrorSettings, Errors};

/// The leg on which a packet travelled last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// From its initiator to the hub.
    ToHub,
    /// From the hub, or the other adapter, to this target.
    ToTarget(u16),
}

/// A packet whose bytes are built and damaged.
#[derive(Clone, Copy, Debug)]
pub struct Damageable {
    /// Its initiator.
    pub from: u16,
    /// Its targets, a bit each.
    pub targets: u64,
    /// Its payload.
    pub size: Bytes,
    /// Its place among the packets of its initiator.
    pub number: u64,
    /// Whether several targets have not received it.
    pub is_broadcast: bool,
}

/// The errors of all links of a channel.
#[derive(Debug)]
pub struct Damage {
    detection: DetectionSettings,
    to_hub: Vec<Errors>,
    to_targets: Vec<Errors>,
    undetected: u64,
}

/// The channel whose links they are.
#[derive(Clone, Copy, Debug)]
pub struct DamagedChannel<'name> {
    /// Its name, which names the random streams.
    pub name: &'name str,
    /// How many hosts there are.
    pub hosts: u16,
    /// Whether two adapters are cabled to each other, without a hub.
    pub is_direct: bool,
}

impl Damage {
    /// The errors on the links of a channel. Packets listed as damaged are damaged on the leg to the
    /// hub.
    pub fn new(
        errors: &ErrorSettings,
        detection: DetectionSettings,
        channel: DamagedChannel<'_>,
        streams: &Streams,
    ) -> Damage {
        let DamagedChannel { name, hosts, is_direct } = channel;
        let of = |name: &str, is_listed: bool| -> Vec<Errors> {
            let mut errors = errors.clone();
            if !is_listed {
                errors.packets.clear();
            }
            (0..hosts).map(|host| errors.build(streams, name, host)).collect()
        };
        let is_whole = errors.is_free_of_errors();
        Damage {
            detection,
            to_hub: if is_whole || is_direct { vec![] } else { of(name, true) },
            to_targets: if is_whole { vec![] } else { of(&format!("{name} hub"), is_direct) },
            undetected: 0,
        }
    }

    /// Whether a packet passes the check after one leg, given the errors of that leg.
    pub fn is_whole(&mut self, packet: Damageable, leg: Leg) -> bool {
        let (errors, place) = match leg {
            Leg::ToHub => (&mut self.to_hub, packet.from),
            Leg::ToTarget(target) => (&mut self.to_targets, target),
        };
        let Some(errors) = errors.get_mut(usize::from(place)) else { return true };
        // The smallest and odd payloads use the codes of the next even ones.
        let payload = packet.size.0.clamp(4, 256).next_multiple_of(2);
        if !errors.damages_next(None, Bytes(payload + 12)) {
            return true;
        }
        let bytes = (0..payload).map(|place| (place ^ packet.number) as u8).collect();
        let Ok(payload) = Payload::new(bytes) else { return true };
        let sent = DataPacket {
            destination: Node(packet.targets.trailing_zeros() as u8),
            sender: Node(packet.from as u8),
            command: Command { broadcast: packet.is_broadcast, ..Command::WRITE },
            address: packet.number as u32 * 256,
            payload,
        };
        let size = Bytes(sent.cycles() * 2);
        let count = 1 + errors.wrong_bit(Bytes(1)) % 4;
        let bits: Vec<u64> = (0..count).map(|_| errors.wrong_bit(size)).collect();
        let is_whole = self.detection.accepts(&sent, &bits);
        let unchanged = bits.iter().all(|bit| bits.iter().filter(|own| *own == bit).count() == 2);
        self.undetected += u64::from(is_whole && !unchanged);
        is_whole
    }

    /// Packets that were damaged and taken for whole.
    pub fn undetected(&self) -> u64 {
        self.undetected
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Fraction;

    use super::*;
    use crate::link::DamagedPacket;

    const PACKET: Damageable =
        Damageable { from: 1, targets: 0b100, size: Bytes(32), number: 5, is_broadcast: false };

    fn damage(errors: &ErrorSettings, is_direct: bool) -> Damage {
        let channel = DamagedChannel { name: "memory", hosts: 4, is_direct };
        Damage::new(errors, DetectionSettings::ReedSolomon, channel, &Streams::new(1))
    }

    #[test]
    fn a_listed_packet_is_damaged_on_its_first_way_and_on_that_alone() {
        let packets = vec![DamagedPacket { host: 1, packet: 1 }];
        let errors = ErrorSettings { packets, ..ErrorSettings::default() };
        let mut hub = damage(&errors, false);
        let seen = [(); 3].map(|()| hub.is_whole(PACKET, Leg::ToHub));
        assert_eq!(seen, [true, false, true]);
        assert!((0..9).all(|_| hub.is_whole(PACKET, Leg::ToTarget(2))));
        // Without a hub there is one leg, and its errors count at the target.
        let mut direct = damage(&errors, true);
        assert!((0..9).all(|_| direct.is_whole(PACKET, Leg::ToHub)));
        let seen = [(); 3].map(|()| direct.is_whole(PACKET, Leg::ToTarget(1)));
        assert_eq!(seen, [true, false, true]);
    }

    /// Up to four bits of two bytes each: the code of generation 2 finds nearly all of it.
    #[test]
    fn chance_damages_as_often_as_it_says() {
        let packet_error_rate = Fraction::new(0.25).unwrap();
        let errors = ErrorSettings { packet_error_rate, ..ErrorSettings::default() };
        let mut damage = damage(&errors, false);
        let whole = (0..4_000).filter(|_| damage.is_whole(PACKET, Leg::ToTarget(2))).count();
        assert!((2_900..3_100).contains(&whole), "{whole}");
        assert!(damage.undetected() < 10);
        let mut none = super::tests::damage(&ErrorSettings::default(), false);
        assert!((0..99).all(|_| none.is_whole(PACKET, Leg::ToHub)));
    }
}
