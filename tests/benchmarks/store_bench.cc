// Speed of a parameter server's stores on this machine, beside RocksDB's and the disk's own.
//
//   store_bench [--quick] [--only memory|disk|log|recovery] [--json FILE]
//
// Rows have 64 floats; a request is 10,000 keys drawn uniformly or with power law 1.2, each once.
// First a table that is all in memory, then one of eight and one of ten times its cache, whose
// other rows are in RocksDB; then the log of pushes with durability EVERY_PUSH, and what a restart
// reads of it. Rows/s are of one thread. RocksDB's MultiGet reads the same rows of the same files;
// "misses" are the rows that a table read from there. Space is the store's files against the rows
// in it, writes are all bytes that the process wrote against those of rows that were evicted.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/rpc/memory_tuning.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/parameter_server/store_log.h"
#include "tests/benchmarks/parameter_server/store_rows.h"

namespace muster {
namespace {

constexpr char kBench[] = "store";
constexpr int64_t kKeys = 10000;
// Of log, for a recovery: about what a server has at most, a partition.
constexpr uint64_t kReplayedBytes = uint64_t{200} << 20;
// What a row takes in memory: its head, its floats, its place in the index.
constexpr uint64_t kRowMemory = 32 + 256 + 32;
constexpr KeyDistribution kDistributions[] = {KeyDistribution::kUniform,
                                              KeyDistribution::kPowerLaw};

struct Effort {
  int repetitions;
  double seconds;
  // In memory, and of which a part is.
  uint64_t memory_rows;
  uint64_t disk_rows;
  // Until the log's files have been written once.
  uint64_t log_bytes;

  absl::Duration duration() const { return absl::Seconds(seconds); }
};

class Bench {
 public:
  Bench(const Effort& effort, std::string folder) : effort_(effort), folder_(std::move(folder)) {}

  // `only` is empty or the name of a part.
  absl::Status Run(const std::string& only) {
    if (only.empty() || only == "memory") MUSTER_RETURN_IF_ERROR(InMemory());
    for (uint64_t times : {8, 10}) {
      if (only.empty() || only == "disk") MUSTER_RETURN_IF_ERROR(OnDisk(times));
    }
    if (only.empty() || only == "log") MUSTER_RETURN_IF_ERROR(Log());
    return only.empty() || only == "recovery" ? Recovery() : absl::OkStatus();
  }
  const std::vector<BenchRecord>& records() const { return records_; }

 private:
  void Add(const std::string& system, const std::string& metric, const std::string& unit,
           std::vector<std::pair<std::string, BenchRecord::Value>> parameters,
           std::vector<double> samples) {
    BenchRecord record;
    record.bench = kBench;
    record.system = system;
    record.metric = metric;
    record.unit = unit;
    record.parameters = std::move(parameters);
    record.samples = std::move(samples);
    records_.push_back(std::move(record));
  }

  absl::Status InMemory() {
    std::cout << absl::StreamFormat("rows of 256 bytes, %d of them in memory, M rows/s\n",
                                    effort_.memory_rows);
    std::vector<double> limit;
    for (int i = 0; i < effort_.repetitions; ++i) {
      limit.push_back(GatherSpeed(effort_.memory_rows, kKeys, effort_.duration()) / 1e6);
    }
    std::cout << absl::StreamFormat("  %-28s %8.2f\n", "gather from known places", Median(limit));
    Add("gather", "rows", "M/s", {{"rows", int64_t(effort_.memory_rows)}}, limit);
    MUSTER_ASSIGN_OR_RETURN(const auto table, BenchTable::Create({.rows = effort_.memory_rows}));
    for (KeyDistribution distribution : kDistributions) {
      for (const auto& [name, operation] :
           {std::pair("pull", BenchTable::Operation::kPull),
            std::pair("push (SGD)", BenchTable::Operation::kPush)}) {
        std::vector<double> samples;
        for (int i = 0; i < effort_.repetitions; ++i) {
          MUSTER_ASSIGN_OR_RETURN(const BenchTable::Result result,
                                  table->Run(operation, distribution, kKeys, effort_.duration()));
          samples.push_back(result.rows_per_second / 1e6);
        }
        std::cout << absl::StreamFormat(
            "  %-28s %8.2f\n", absl::StrCat(name, ", ", Name(distribution)), Median(samples));
        Add("muster", "rows", "M/s",
            {{"rows", int64_t(effort_.memory_rows)},
             {"operation", std::string(name)},
             {"keys", Name(distribution)}},
            samples);
      }
    }
    std::cout << std::endl;
    return absl::OkStatus();
  }

  // A table of `times` its cache.
  absl::Status OnDisk(uint64_t times) {
    const std::string folder = absl::StrCat(folder_, "/rows-", times);
    const uint64_t row_bytes = effort_.disk_rows * kRowMemory;
    // RocksDB gets the same memory for its blocks in all cases.
    const uint64_t block_cache = row_bytes / 4;
    const BenchTable::Options options{.rows = effort_.disk_rows,
                                      .cache_bytes = row_bytes / times,
                                      .folder = folder,
                                      .block_cache_bytes = block_cache};
    const uint64_t written_before = BytesWritten();
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<BenchTable> table, BenchTable::Create(options));
    std::cout << absl::StreamFormat("%d rows, %d times the cache; M rows/s\n", effort_.disk_rows,
                                    times);
    std::cout << "  operation                       all rows   misses  evicted\n";
    BenchTable::Result misses[2];
    for (KeyDistribution distribution : kDistributions) {
      for (const auto& [name, operation] :
           {std::pair("pull", BenchTable::Operation::kPull),
            std::pair("pull and push", BenchTable::Operation::kTrain)}) {
        std::vector<double> all, read, read_cpu, evicted;
        for (int i = 0; i < effort_.repetitions; ++i) {
          MUSTER_ASSIGN_OR_RETURN(const BenchTable::Result result,
                                  table->Run(operation, distribution, kKeys, effort_.duration()));
          all.push_back(result.rows_per_second / 1e6);
          read.push_back(result.read_per_second / 1e6);
          read_cpu.push_back(result.read_per_cpu_second / 1e6);
          evicted.push_back(result.written_per_second / 1e6);
        }
        std::cout << absl::StreamFormat("  %-30s %8.3f %8.3f %8.3f\n",
                                        absl::StrCat(name, ", ", Name(distribution)), Median(all),
                                        Median(read), Median(evicted));
        const std::vector<std::pair<std::string, BenchRecord::Value>> parameters = {
            {"rows", int64_t(effort_.disk_rows)},
            {"times_the_cache", int64_t(times)},
            {"operation", std::string(name)},
            {"keys", Name(distribution)}};
        Add("muster", "rows", "M/s", parameters, all);
        Add("muster", "misses", "M/s", parameters, read);
        if (operation == BenchTable::Operation::kPull) {
          BenchTable::Result& of_pulls = misses[distribution == KeyDistribution::kPowerLaw];
          of_pulls.read_per_second = Median(read);
          of_pulls.read_per_cpu_second = Median(read_cpu);
        }
      }
    }
    const uint64_t evicted_bytes = table->written_row_bytes();
    const uint64_t rows_bytes = table->row_bytes();
    table.reset();
    const double written = static_cast<double>(BytesWritten() - written_before);
    const double writes = written / static_cast<double>(evicted_bytes);
    const double space = static_cast<double>(FolderBytes(folder)) / static_cast<double>(rows_bytes);
    MUSTER_RETURN_IF_ERROR(RawReads(folder, block_cache, times, misses));
    std::cout << absl::StreamFormat(
        "  bytes on disk per byte of rows %.2f, written per byte evicted "
        "%.2f\n\n",
        space, writes);
    Add("muster", "space", "bytes/byte", {{"times_the_cache", int64_t(times)}}, {space});
    Add("muster", "writes", "bytes/byte", {{"times_the_cache", int64_t(times)}}, {writes});
    std::filesystem::remove_all(folder);
    return absl::OkStatus();
  }

  absl::Status RawReads(const std::string& folder, uint64_t block_cache, uint64_t times,
                        const BenchTable::Result (&misses)[2]) {
    const struct {
      const char* name;
      uint64_t cache_bytes;
      KeyDistribution distribution;
    } cases[] = {
        {"MultiGet, all cached", effort_.disk_rows * kRowMemory * 2, KeyDistribution::kUniform},
        {"MultiGet, same cache", block_cache, KeyDistribution::kUniform},
        {"MultiGet, same cache", block_cache, KeyDistribution::kPowerLaw},
        {"MultiGet, from disk", 0, KeyDistribution::kUniform},
    };
    for (const auto& [name, cache_bytes, distribution] : cases) {
      std::vector<double> samples, cpu_samples;
      for (int i = 0; i < effort_.repetitions; ++i) {
        MUSTER_ASSIGN_OR_RETURN(const ReadSpeed speed,
                                RawMultiGetSpeed(folder, effort_.disk_rows, cache_bytes,
                                                 distribution, kKeys, effort_.duration()));
        samples.push_back(speed.rows_per_second / 1e6);
        cpu_samples.push_back(speed.rows_per_cpu_second / 1e6);
      }
      std::cout << absl::StreamFormat("  %-30s %8.3f", absl::StrCat(name, ", ", Name(distribution)),
                                      Median(samples));
      if (cache_bytes == block_cache) {
        const BenchTable::Result& of_pulls = misses[distribution == KeyDistribution::kPowerLaw];
        if (of_pulls.read_per_second > 0) {
          std::cout << absl::StreamFormat(
              "    misses of pulls reach %.2f of it, by processor time %.2f",
              of_pulls.read_per_second / Median(samples),
              of_pulls.read_per_cpu_second / Median(cpu_samples));
        } else {
          std::cout << "    pulls missed nothing";
        }
      }
      std::cout << "\n";
      Add("RocksDB", "rows", "M/s",
          {{"rows", int64_t(effort_.disk_rows)},
           {"times_the_cache", int64_t(times)},
           {"operation", std::string(name)},
           {"keys", Name(distribution)}},
          samples);
    }
    return absl::OkStatus();
  }

  absl::Status Log() {
    const std::string folder = absl::StrCat(folder_, "/log");
    std::cout << "log                                   GB/s                 CPU s/GB\n"
                 "            under way   memory    pushes  raw pattern  ratio   pushes  raw\n";
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<BenchLog> log, BenchLog::Open(folder));
    uint64_t warm_bytes = effort_.log_bytes;
    for (const size_t bytes : {size_t{1} << 20, size_t{4} << 20}) {
      for (const int in_flight : {1, 4}) {
        for (const auto& [memory_name, memory] : {std::pair("private", BenchLog::Memory::kPrivate),
                                                  std::pair("shared", BenchLog::Memory::kShared)}) {
          std::vector<double> raw, pushed, raw_cpu, pushed_cpu;
          // By turns, so that what else the machine does falls on both.
          for (int i = 0; i < effort_.repetitions; ++i) {
            MUSTER_ASSIGN_OR_RETURN(const LogSpeed limit,
                                    RawLogSpeed(folder, bytes, effort_.duration()));
            MUSTER_ASSIGN_OR_RETURN(
                const LogSpeed speed,
                log->Push(bytes, in_flight, memory, warm_bytes, effort_.duration() * 2));
            warm_bytes = 0;
            raw.push_back(limit.gb_per_second);
            raw_cpu.push_back(limit.cpu_seconds_per_gb);
            pushed.push_back(speed.gb_per_second);
            pushed_cpu.push_back(speed.cpu_seconds_per_gb);
          }
          std::cout << absl::StreamFormat(
              "  pushes of %d MiB %4d %9s %8.2f %12.2f %6.2f %8.2f %5.2f\n", bytes >> 20, in_flight,
              memory_name, Median(pushed), Median(raw), Median(pushed) / Median(raw),
              Median(pushed_cpu), Median(raw_cpu));
          const std::vector<std::pair<std::string, BenchRecord::Value>> parameters = {
              {"push_bytes", int64_t(bytes)},
              {"in_flight", int64_t{in_flight}},
              {"memory", std::string(memory_name)}};
          Add("muster", "pushed", "GB/s", parameters, pushed);
          Add("muster", "processor", "s/GB", parameters, pushed_cpu);
          Add("overwrite and fdatasync", "written", "GB/s", parameters, raw);
          Add("overwrite and fdatasync", "processor", "s/GB", parameters, raw_cpu);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Recovery() {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<BenchLog> log,
                            BenchLog::Open(absl::StrCat(folder_, "/recovery")));
    std::vector<double> replayed, processor, seconds;
    BenchLog::Recovery recovery;
    for (int i = 0; i < effort_.repetitions; ++i) {
      MUSTER_ASSIGN_OR_RETURN(recovery, log->Recover(kReplayedBytes));
      replayed.push_back(recovery.replay.gb_per_second * 1e3);
      processor.push_back(recovery.replay.cpu_seconds_per_gb);
      seconds.push_back(recovery.seconds);
    }
    std::cout << absl::StreamFormat(
        "recovery of one partition: %.0f MB of log replayed at %.0f MB/s, %.2f CPU s/GB; with "
        "opening the store and reading the image %.2f s\n",
        static_cast<double>(recovery.bytes) / 1e6, Median(replayed), Median(processor),
        Median(seconds));
    const std::vector<std::pair<std::string, BenchRecord::Value>> parameters = {
        {"log_bytes", int64_t(kReplayedBytes)}};
    Add("muster", "replayed", "MB/s", parameters, replayed);
    Add("muster", "processor", "s/GB", parameters, processor);
    Add("muster", "recovery", "s", parameters, seconds);
    return absl::OkStatus();
  }

  const Effort effort_;
  const std::string folder_;
  std::vector<BenchRecord> records_;
};

int Main(const Effort& effort, const std::string& only, const std::string& json) {
  const char* parent = std::getenv("TMPDIR");
  std::string folder = absl::StrCat(parent != nullptr ? parent : "/tmp", "/muster-store-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "store_bench: cannot make a folder like " << folder << "\n";
    return EXIT_FAILURE;
  }
  const absl::Cleanup remove = [&] { std::filesystem::remove_all(folder); };
  Bench bench(effort, folder);
  absl::Status status = bench.Run(only);
  if (status.ok() && !json.empty()) status = WriteRecords(json, bench.records());
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "store_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  CLI::App app("Speed of a parameter server's stores.");
  bool quick = false;
  std::string json, only;
  app.add_flag("--quick", quick, "Fewer and shorter repetitions, smaller tables: under 45 s.");
  app.add_option("--only", only, "One part: memory, disk, log or recovery.")
      ->check(CLI::IsMember({"memory", "disk", "log", "recovery"}));
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  const muster::Effort thorough{.repetitions = 5,
                                .seconds = 1,
                                .memory_rows = 10'000'000,
                                .disk_rows = 4'000'000,
                                .log_bytes = uint64_t{1} << 30};
  const muster::Effort short_run{.repetitions = 1,
                                 .seconds = 0.3,
                                 .memory_rows = 4'000'000,
                                 .disk_rows = 400'000,
                                 .log_bytes = uint64_t{600} << 20};
  return muster::Main(quick ? short_run : thorough, only, json);
}
