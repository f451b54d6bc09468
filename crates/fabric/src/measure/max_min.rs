//! Max-min fair shares: rates at which no flow can get more without taking it from a flow that has
//! no more than itself (Bertsekas and Gallager, "Data Networks", section 6.5).

/// The demands of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The resources that it uses, and how much of each a unit of its rate takes; above 0.
    pub uses: Vec<(usize, f64)>,
    /// The rate beyond which the flow wants no more; infinite if it is greedy.
    pub most: f64,
}

/// The max-min fair rate of each flow, by progressive filling: all rates grow together until a
/// resource is full, whose flows stop growing there. `capacities` are those of the resources. A flow
/// that uses no resource and is greedy gets an infinite rate.
pub fn max_min(flows: &[Capacity], capacities: &[f64]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![0.0; flows.len()];
    let mut growing = vec![true; flows.len()];
    loop {
        if !growing.contains(&true) {
            return rates;
        }
        let mut load = vec![0.0; left.len()];
        for (flow, _) in flows.iter().zip(&growing).filter(|(_, grows)| **grows) {
            flow.uses.iter().for_each(|(resource, cost)| load[*resource] += cost);
        }
        let room = |resource: usize| left[resource].max(0.0) / load[resource];
        let by_resource = (0..left.len()).filter(|own| load[*own] > 0.0).map(room);
        let step = by_resource.fold(f64::INFINITY, f64::min);
        let of_flow = |place: usize| flows[place].most - rates[place];
        let wanting = (0..flows.len()).filter(|place| growing[*place]);
        let step = wanting.map(of_flow).fold(step, f64::min);
        if step == f64::INFINITY {
            let unbounded = rates.iter_mut().zip(&growing).filter(|(_, grows)| **grows);
            unbounded.for_each(|(rate, _)| *rate = f64::INFINITY);
            return rates;
        }
        // Full within what rounding leaves.
        let is_full = |resource: usize| {
            load[resource] > 0.0
                && left[resource] - load[resource] * step <= 1e-9 * capacities[resource]
        };
        let full: Vec<bool> = (0..left.len()).map(is_full).collect();
        for (resource, own) in left.iter_mut().enumerate() {
            *own -= load[resource] * step;
        }
        for (place, flow) in flows.iter().enumerate() {
            if !growing[place] {
                continue;
            }
            rates[place] += step;
            let stops = flow.uses.iter().any(|(resource, _)| full[*resource]);
            growing[place] = !stops && rates[place] < flow.most;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn greedy(uses: &[usize]) -> Capacity {
        Capacity { uses: uses.iter().map(|own| (*own, 1.0)).collect(), most: f64::INFINITY }
    }

    /// The example of the book: one flow over two links that others use alone.
    #[test]
    fn a_flow_over_two_links_gets_the_smaller_share() {
        let flows = [greedy(&[0, 1]), greedy(&[0]), greedy(&[0]), greedy(&[1])];
        let rates = max_min(&flows, &[1.0, 1.0]);
        let expected = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0];
        assert!(rates.iter().zip(expected).all(|(rate, own)| (rate - own).abs() < 1e-12));
    }

    #[test]
    fn what_one_does_not_want_is_left_to_the_others() {
        let flows = [Capacity { most: 0.1, ..greedy(&[0]) }, greedy(&[0]), greedy(&[0])];
        let rates = max_min(&flows, &[1.0]);
        assert!([0.1, 0.45, 0.45].iter().zip(&rates).all(|(own, rate)| (rate - own).abs() < 1e-12));
        assert_eq!(max_min(&[greedy(&[])], &[]), [f64::INFINITY]);
    }

    proptest! {
        /// Every flow uses a resource that is full and in which no other flow gets more.
        #[test]
        fn every_flow_has_its_bottleneck(
            uses in prop::collection::vec(prop::collection::btree_set(0_usize..6, 1..4), 1..9),
            capacities in prop::collection::vec(0.1_f64..3.0, 6),
        ) {
            let flows: Vec<Capacity> = uses
                .iter()
                .map(|own| greedy(&own.iter().copied().collect::<Vec<_>>()))
                .collect();
            let rates = max_min(&flows, &capacities);
            let on = |resource: usize| -> Vec<f64> {
                let of = |flow: &usize| uses[*flow].contains(&resource);
                (0..flows.len()).filter(of).map(|flow| rates[flow]).collect()
            };
            for (resource, capacity) in capacities.iter().enumerate() {
                let sum: f64 = on(resource).iter().sum();
                prop_assert!(sum <= capacity * (1.0 + 1e-6));
            }
            for (flow, rate) in rates.iter().enumerate() {
                let bottleneck = flows[flow].uses.iter().any(|(resource, _)| {
                    let sum: f64 = on(*resource).iter().sum();
                    let most = on(*resource).into_iter().fold(0.0, f64::max);
                    sum >= capacities[*resource] * (1.0 - 1e-6) && *rate >= most * (1.0 - 1e-6)
                });
                prop_assert!(bottleneck, "flow {flow} of {rates:?}");
            }
        }
    }
}
