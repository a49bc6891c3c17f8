//! The list of pools.

use super::escape;
use super::table::Table;
use paddock_model::api::{Pool, PoolMaker, ZygoteState};

pub fn text(pools: &[Pool], colour: bool) -> String {
    let header = [
        "TEMPLATE",
        "MIN",
        "MAX",
        "WANTED",
        "READY",
        "MAKING",
        "IN USE",
        "HITS",
        "MISSES",
        "FORKED FROM",
        "PRELOADED",
        "MADE BY",
    ];
    let mut table = Table::with_header(&header);
    for pool in pools {
        let zygote = match pool.zygote {
            ZygoteState::Starting => "starting",
            ZygoteState::Ready => "zygote",
            ZygoteState::Unavailable => "nothing",
        };
        let made_by = match pool.made_by {
            PoolMaker::Owner => "owner",
            PoolMaker::Job => "job",
            PoolMaker::Demand => "demand",
        };
        let numbers = [
            u64::from(pool.min),
            u64::from(pool.max),
            u64::from(pool.wanted),
            u64::from(pool.ready),
            u64::from(pool.making),
            u64::from(pool.in_use),
            pool.hits,
            pool.misses,
        ];
        let preload = if pool.preload.is_empty() { "-".to_string() } else { pool.preload.join(" ") };
        let cells = [pool.template.clone()].into_iter().chain(numbers.map(|number| number.to_string()));
        table.row(
            cells.chain([zygote.to_string(), preload, made_by.to_string()]).map(|cell| cell.as_str().into()),
        );
    }
    let mut text = table.render(colour);
    for pool in pools {
        if let Some(error) = &pool.error {
            text.push_str(&format!("{}: {}\n", escape::line(&pool.template), escape::line(error)));
        }
    }
    text
}
