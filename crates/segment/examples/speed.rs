use std::time::Instant;
use thalweg_segment::try_it::*;
use policy::Compression::{self, Lz4, Zstd};
fn rnd(x: &mut u64) -> u64 { *x ^= *x << 13; *x ^= *x >> 7; *x ^= *x << 17; x.wrapping_mul(0x2545F4914F6CDD1D) }
fn unit(x: &mut u64) -> f64 { (rnd(x) >> 11) as f64 / (1u64 << 53) as f64 }
fn doubles(n: usize, noise: f64, digits: Option<f64>) -> Vec<u8> {
    let mut x = 99;
    (0..n / 8).flat_map(|i| { let v = 300.0 + 20.0 * (i as f64 * 0.001).sin() + noise * (unit(&mut x) - 0.5);
        let v = match digits { Some(d) => (v * d).round() / d, None => v }; v.to_le_bytes() }).collect()
}
fn floats(n: usize, noise: f64) -> Vec<u8> {
    let mut x = 99;
    (0..n / 4).flat_map(|i| { let v = 300.0 + 20.0 * (i as f64 * 0.001).sin() + noise * (unit(&mut x) - 0.5); (v as f32).to_le_bytes() }).collect()
}
fn files(dir: &str, ext: &str, n: usize) -> Vec<u8> {
    let o = std::process::Command::new("sh").arg("-c").arg(format!("find {dir} -type f -name '{ext}' | sort | xargs cat | head -c {n}")).output().unwrap(); o.stdout
}
fn main() {
    let n = 16 << 20;
    let mut x = 88172645463325252u64;
    let random: Vec<u8> = (0..n / 8).flat_map(|_| rnd(&mut x).to_le_bytes()).collect();
    let mut y = 5u64;
    let uniform: Vec<u8> = (0..n / 8).flat_map(|_| unit(&mut y).to_le_bytes()).collect();
    let ints: Vec<u8> = (0..n / 8).flat_map(|i| (i as u64).to_le_bytes()).collect();
    let home = std::env::var("HOME").unwrap();
    let sets = [("random", random), ("uniform01", uniform), ("ids", ints), ("dbl noise1e-3", doubles(n, 1e-3, None)), ("dbl noise1", doubles(n, 1.0, None)), ("dbl noise0", doubles(n, 0.0, None)), ("dbl 3 digits", doubles(n, 1.0, Some(1000.0))),
        ("f32 noise1e-2", floats(n, 1e-2)), ("f32 noise 0", floats(n, 0.0)),
        ("rust text", files(&format!("{home}/.cargo/registry/src"), "*.rs", n)), ("doc", files("/usr/share", "*.txt", n)), ("so", files("/usr/lib", "*.so*", n)), ("crates", files(&format!("{home}/.cargo/registry/cache"), "*.crate", n)),("pyc", files("/usr/lib/python3", "*.py", n)), ("h", files("/usr/include", "*.h", n)), ("mo", files("/usr/share", "*.mo", n))];
    for (name, data) in &sets {
        if data.is_empty() { continue; }
        print!("{name:14} {:5.1}M", data.len() as f64 / 1e6);
        for pieces in [(4,4096),(2,4096),(4,2048)] {
        print!(" || ");
        for c in [Lz4, Zstd{level:1}, Zstd{level:3}] {
            let (mut raw, mut enc_n) = (0, 0);
            let t = Instant::now();
            for b in data.chunks(256<<10).filter(|b| b.len() == 256 << 10) {
                let smp: Vec<u8> = (0..pieces.0).flat_map(|i| { let at = i * (b.len() - pieces.1) / (pieces.0 - 1); b[at..at+pieces.1].iter().copied() }).collect();
                raw += smp.len(); enc_n += enc(c, &smp);
            }
            print!(" {:5.1}% {:4.0}us", enc_n as f64 / raw as f64 * 100.0, t.elapsed().as_secs_f64() * 1e6 / (data.len() >> 18) as f64);
        }}
        println!();
    }
}
