//! What switches write into packets that ask for it (in-band telemetry).

use weft_units::Time;

/// What one output knew when a packet began to leave by it: the fields that HPCC reads (Li et al.,
/// "HPCC: High Precision Congestion Control", SIGCOMM 2019, figure 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopTelemetry {
    /// The directed port, which tells the rate of its link.
    pub port: u32,
    /// Bytes of all classes that waited behind the packet.
    pub queue: u32,
    /// Bytes that had been sent by the port, this packet included.
    pub sent: u64,
    /// When its first byte left.
    pub time: Time,
}

/// The outputs that a packet left by, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Telemetry {
    hops: [HopTelemetry; Telemetry::MOST],
    count: u8,
}

impl Telemetry {
    /// Outputs that a packet has room for. Those behind them are left out.
    pub const MOST: usize = 8;

    /// What was written, output by output.
    pub fn hops(&self) -> &[HopTelemetry] {
        &self.hops[..usize::from(self.count)]
    }

    /// Nothing is written.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// An output writes what it knows.
    #[inline]
    pub fn write(&mut self, hop: HopTelemetry) {
        if let Some(place) = self.hops.get_mut(usize::from(self.count)) {
            *place = hop;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_beyond_the_last_place_are_left_out() {
        let mut own = Telemetry::default();
        for port in 0..10 {
            own.write(HopTelemetry { port, ..HopTelemetry::default() });
        }
        let ports: Vec<u32> = own.hops().iter().map(|hop| hop.port).collect();
        assert_eq!(ports, [0, 1, 2, 3, 4, 5, 6, 7]);
        own.clear();
        assert_eq!(own.hops(), []);
    }
}
