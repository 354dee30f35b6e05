//! scratch
use policy::compression::CANDIDATES;
#[repr(C)]
struct Ts(i64, i64);
unsafe extern "C" {
    fn clock_gettime(id: i32, t: *mut Ts) -> i32;
}
fn cpu() -> u128 {
    let mut t = Ts(0, 0);
    unsafe { clock_gettime(3, &mut t) };
    t.0 as u128 * 1_000_000_000 + t.1 as u128
}
use thalweg_segment::{decode, encode_with};
fn main() {
    let every: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let out = std::io::stdout();
    let mut out = std::io::BufWriter::new(out.lock());
    use std::io::Write;
    for path in std::env::args().skip(2) {
        let bytes = std::fs::read(&path).unwrap();
        for (n, raw) in bytes.chunks(262_144).enumerate() {
            if n % every != every / 2 && n != 0 {
                continue;
            }
            if raw.len() < 4096 {
                continue;
            }
            let t = cpu();
            let (data, features) = thalweg_segment::look(raw);
            let look = (cpu() - t);
            write!(
                out,
                "{path}\t{n}\t{}\t{look}\t{}\t{:?}\t{}\t",
                raw.len(),
                data.record_length,
                data.element,
                data.phase
            )
            .unwrap();
            for f in features {
                write!(out, "{f} ").unwrap();
            }
            write!(out, "\t").unwrap();
            for c in CANDIDATES {
                let Some(e) = c.encoding(&data) else {
                    write!(out, "-1,0,0 ").unwrap();
                    continue;
                };
                let (mut best, mut size) = (u128::MAX, 0);
                let mut dec = u128::MAX;
                let mut first = true;
                loop {
                    let t = cpu();
                    let block = encode_with(format::BlockKind::Data, &[(format::Fingerprint([0; 32]), raw)], &e);
                    best = best.min((cpu() - t));
                    size = block.payload.len();
                    if best > 3_000_000 || !first {
                        let t = cpu();
                        decode(&block).unwrap();
                        dec = dec.min((cpu() - t));
                        break;
                    }
                    first = false;
                }
                write!(out, "{size},{best},{dec} ").unwrap();
            }
            writeln!(out).unwrap();
        }
    }
}
