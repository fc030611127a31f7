//! mount-s3 BUCKET[/PREFIX/] DIR ENDPOINT CACHE|- read|write
//!
//! Mounts a bucket with mountpoint-s3's library and that program's defaults, in the foreground: parts of
//! 8 MiB, 10 Gbit/s aimed at, 16 threads, 95 % of the memory allowed, blocks of 1 MiB in the cache. What a training
//! set allows is on: metadata are kept (`--metadata-ttl indefinite`), with a cache on disk (`--cache`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use mountpoint_s3_client::config::AddressingStyle;
use mountpoint_s3_fs::data_cache::{CacheLimit, DataCacheConfig, DiskDataCacheConfig, ManagedCacheDir};
use mountpoint_s3_fs::fs::{CacheConfig, TimeToLive};
use mountpoint_s3_fs::fuse::config::{FuseOptions, FuseSessionConfig, MountPoint};
use mountpoint_s3_fs::memory::{CandidateSize, PagedPool};
use mountpoint_s3_fs::s3::config::{ClientConfig, MemoryLimitSetting, PartConfig, Region, TargetThroughputSetting};
use mountpoint_s3_fs::s3::{Bucket, Prefix, S3Path};
use mountpoint_s3_fs::{MountpointConfig, Runtime, S3FilesystemConfig, Superblock, SuperblockConfig};

const PART: usize = 8 << 20;
const BLOCK: u64 = 1 << 20;

fn cached(below: &Path) -> Result<(DataCacheConfig, ManagedCacheDir)> {
    let held = ManagedCacheDir::new_from_parent_with_cache_key(below, None, true).context("the cache's folder")?;
    let config = DataCacheConfig {
        disk_cache_config: Some(DiskDataCacheConfig {
            cache_directory: held.as_path_buf(),
            block_size: BLOCK,
            limit: CacheLimit::TotalSize { max_size: 40 << 30 },
        }),
        express_cache_config: None,
    };
    Ok((config, held))
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [bucket, directory, endpoint, cache, access] = words.as_slice() else {
        bail!("usage: mount-s3 BUCKET[/PREFIX/] DIR ENDPOINT CACHE|- read|write");
    };
    let (bucket, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
    let read_only = access == "read";

    let memory = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram()),
    )
    .total_memory() as usize
        / 100
        * 95;
    let client_config = ClientConfig {
        region: Region::new_user_specified("us-east-1".to_string()),
        endpoint_url: Some(endpoint.clone()),
        addressing_style: AddressingStyle::Path,
        dual_stack: false,
        transfer_acceleration: false,
        auth_config: Default::default(),
        requester_pays: false,
        expected_bucket_owner: None,
        throughput_target: TargetThroughputSetting::Default,
        bind: None,
        part_config: PartConfig::with_part_size(PART).validate(MemoryLimitSetting::Default(memory))?,
        user_agent: mountpoint_s3_client::user_agent::UserAgent::new(None),
        tls_config: None,
    };
    let pool = PagedPool::config()
        .with_candidate_sizes([CandidateSize::new(client_config.part_config.read_size_bytes)])
        .with_memory_limit(memory)
        .build();
    let client = client_config.create_client(pool.clone(), None).context("no client of S3")?;
    let runtime = Runtime::new(client.event_loop_group());

    let (data_cache, held) = match cache.as_str() {
        "-" => (DataCacheConfig::default(), None),
        below => cached(&PathBuf::from(below)).map(|(config, held)| (config, Some(held)))?,
    };
    let fs_config = S3FilesystemConfig {
        cache_config: CacheConfig::new(if read_only { TimeToLive::Indefinite } else { TimeToLive::Minimal }),
        allow_delete: !read_only,
        allow_overwrite: !read_only,
        read_only,
        ..Default::default()
    };
    let superblock = Superblock::new(
        Arc::new(client.clone()),
        S3Path::new(Bucket::new(bucket)?, Prefix::new(prefix)?),
        SuperblockConfig {
            cache_config: fs_config.cache_config.clone(),
            s3_personality: fs_config.s3_personality,
        },
    );
    let options = FuseOptions { read_only, auto_unmount: false, ..Default::default() };
    let fuse = FuseSessionConfig::new(MountPoint::new(directory)?, options, 16)?;
    let mut session = MountpointConfig::new(fuse, fs_config, data_cache)?
        .create_fuse_session(superblock, client, runtime, pool)
        .context("does not mount")?;
    session.run_on_close(Box::new(move || drop(held)));
    session.join().context("the session ended")
}
