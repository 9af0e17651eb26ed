#include "common/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/storage.h"
#include "common/files/fake_folder_entries.h"
#include "common/files/temp_folder.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kJobFolder[] = "/root/job-1";

std::string Contents(uint64_t clock, uint32_t partition) {
  return std::string(100 + partition, static_cast<char>('a' + clock % 20));
}

v1::CheckpointManifest Manifest(uint64_t clock, uint32_t partitions) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job-1");
  manifest.set_generation(1);
  manifest.set_clock(clock);
  manifest.mutable_schema()->set_partitions(partitions);
  for (uint32_t i = 0; i < partitions; ++i) {
    v1::CheckpointFile& file = *manifest.add_files();
    file.set_partition(i);
    file.set_path(PartitionFileName(i, 1));
    file.set_bytes(Contents(clock, i).size());
    file.set_checksum(Fingerprint(Contents(clock, i)));
  }
  return manifest;
}

void WriteFiles(CheckpointStorage& storage, uint64_t clock, uint32_t partitions) {
  const std::string folder = CheckpointFolder("/root", "job-1", clock);
  for (uint32_t i = 0; i < partitions; ++i) {
    ASSERT_TRUE(
        ReplaceFile(storage, JoinUri(folder, PartitionFileName(i, 1)), Contents(clock, i)).ok());
  }
}

void WriteCheckpoint(CheckpointStorage& storage, uint64_t clock) {
  WriteFiles(storage, clock, 2);
  ASSERT_TRUE(
      WriteManifest(storage, CheckpointFolder("/root", "job-1", clock), Manifest(clock, 2)).ok());
}

std::vector<uint64_t> Clocks(const CheckpointStorage& storage) {
  std::vector<uint64_t> clocks;
  for (uint64_t clock = 0; clock <= 100; ++clock) {
    const std::string folder = CheckpointFolder("/root", "job-1", clock);
    if (ReadManifest(storage, folder).ok()) clocks.push_back(clock);
  }
  return clocks;
}

// Fails one call that changes something, and all after it, as a crash would; and calls `check`
// after each that did not.
class FailingStorage final : public CheckpointStorage {
 public:
  FailingStorage(
      CheckpointStorage& inner, int changes, std::function<void()> check = [] {})
      : inner_(inner), left_(changes), check_(std::move(check)) {}

  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override {
    if (left_-- <= 0) return absl::UnavailableError("crash");
    return inner_.Create(uri);
  }
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override {
    return inner_.Open(uri);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override {
    return inner_.List(uri);
  }
  absl::StatusOr<bool> Exists(absl::string_view uri) const override { return inner_.Exists(uri); }
  absl::Status DeleteRecursively(absl::string_view uri) override {
    if (left_-- <= 0) return absl::UnavailableError("crash");
    const absl::Status status = inner_.DeleteRecursively(uri);
    check_();
    return status;
  }
  absl::Status SyncFolder(absl::string_view uri) override { return inner_.SyncFolder(uri); }

 private:
  CheckpointStorage& inner_;
  int left_;
  const std::function<void()> check_;
};

TEST(ManifestTest, ReadsWhatWasWritten) {
  MemoryStorage storage;
  WriteCheckpoint(storage, 7);
  const auto manifest = ReadManifest(storage, "/root/job-1/7");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->format_version(), kCheckpointFormatVersion);
  EXPECT_EQ(manifest->job_id(), "job-1");
  EXPECT_EQ(manifest->files(1).bytes(), 101u);
  EXPECT_TRUE(VerifyCheckpoint(storage, "/root/job-1/7").ok());
}

// A process that takes a checkpoint ends between any two changes of names, others take it again,
// and the power goes after the commit.
TEST(ManifestTest, ACommittedCheckpointOutlivesCrashes) {
  bool ended = true;
  for (int operations = 0; ended; ++operations) {
    TempFolder temp;
    const std::string folder = CheckpointFolder(temp.path() + "/new/root", "job-1", 7);
    FakeFolderEntries entries;
    LocalStorage storage(nullptr, entries);
    // Each attempt has names of its own.
    const auto write_files = [&](absl::string_view attempt) -> absl::Status {
      for (uint32_t i = 0; i < 2; ++i) {
        const std::string name = absl::StrCat(PartitionFileName(i, 1), attempt);
        const absl::Status status = WriteFile(storage, JoinUri(folder, name), Contents(7, i));
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    };
    entries.EndProcessAfter(operations);
    write_files("-lost").IgnoreError();
    ended = entries.StartProcess();
    ASSERT_TRUE(write_files("").ok());
    ASSERT_TRUE(WriteManifest(storage, folder, Manifest(7, 2)).ok());
    entries.LosePower();
    EXPECT_TRUE(VerifyCheckpoint(storage, folder).ok()) << operations;
    ASSERT_LT(operations, 100);
  }
}

TEST(ManifestTest, IsRefusedBeforeItsFilesAreThere) {
  MemoryStorage storage;
  WriteFiles(storage, 7, 1);
  absl::Status status = WriteManifest(storage, "/root/job-1/7", Manifest(7, 2));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("/root/job-1/7/partition-1-generation-1"));
  EXPECT_THAT(Clocks(storage), IsEmpty());

  ASSERT_TRUE(ReplaceFile(storage, "/root/job-1/7/partition-1-generation-1", "short").ok());
  status = WriteManifest(storage, "/root/job-1/7", Manifest(7, 2));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has 5 bytes"));
  EXPECT_THAT(Clocks(storage), IsEmpty());
}

TEST(ManifestTest, FilesMustBeOnePerPartition) {
  MemoryStorage storage;
  WriteFiles(storage, 7, 2);
  v1::CheckpointManifest manifest = Manifest(7, 2);
  manifest.mutable_schema()->set_partitions(3);
  EXPECT_TRUE(absl::IsInvalidArgument(WriteManifest(storage, "/root/job-1/7", manifest)));
  manifest = Manifest(7, 2);
  manifest.mutable_files()->SwapElements(0, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(WriteManifest(storage, "/root/job-1/7", manifest)));
  manifest = Manifest(7, 2);
  manifest.mutable_files(0)->set_path("../8/partition-0-generation-1");
  EXPECT_TRUE(absl::IsInvalidArgument(WriteManifest(storage, "/root/job-1/7", manifest)));
}

TEST(ManifestTest, AnyNumberOfRanksWritesOneFileEach) {
  struct {
    uint32_t files;
    uint32_t partitions;
    uint32_t rank_files;
    bool complete;
  } cases[] = {
      // Tries fewer ranks than partitions, as many, and more.
      {2, 8, 2, true},
      {4, 4, 4, true},
      {8, 2, 8, true},
      // Files of ranks follow those of the servers' partitions.
      {7, 4, 3, true},
      // A file is missing, or one too many is there.
      {2, 8, 3, false},
      {2, 8, 0, false},
      {6, 4, 3, false},
      {8, 4, 3, false},
  };
  for (const auto& [files, partitions, rank_files, complete] : cases) {
    SCOPED_TRACE(absl::StrCat(files, " files, ", partitions, " partitions, ", rank_files));
    MemoryStorage storage;
    WriteFiles(storage, 7, files);
    v1::CheckpointManifest manifest = Manifest(7, files);
    manifest.mutable_schema()->set_partitions(partitions);
    manifest.set_rank_files(rank_files);
    const absl::Status written = WriteManifest(storage, "/root/job-1/7", manifest);
    EXPECT_EQ(absl::IsInvalidArgument(written), !complete) << written;
    if (!complete) continue;
    const auto read = ReadManifest(storage, "/root/job-1/7");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->format_version(), 3) << "earlier readers must not take them for partitions'";
    EXPECT_EQ(read->rank_files(), rank_files);
  }
}

TEST(ManifestTest, EveryDamagedByteIsDataLossThatNamesTheFile) {
  MemoryStorage storage;
  WriteCheckpoint(storage, 7);
  const std::string uri = "/root/job-1/7/MANIFEST";
  const std::string sound = ReadFile(storage, uri).value();
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string damaged = sound;
    damaged[i] ^= 0x10;
    ASSERT_TRUE(ReplaceFile(storage, uri, damaged).ok());
    const absl::Status status = ReadManifest(storage, "/root/job-1/7").status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << i << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr(uri));
  }
  for (size_t length = 0; length < sound.size(); ++length) {
    ASSERT_TRUE(ReplaceFile(storage, uri, sound.substr(0, length)).ok());
    ASSERT_TRUE(absl::IsDataLoss(ReadManifest(storage, "/root/job-1/7").status())) << length;
  }
}

// A storage with one file that says it has any number of bytes, as a sparse file does.
class HugeFileStorage final : public CheckpointStorage {
 public:
  explicit HugeFileStorage(uint64_t bytes) : bytes_(bytes) {}

  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view) const override {
    return std::make_unique<Zeros>(bytes_);
  }
  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view) override {
    return absl::UnimplementedError("only read");
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view) const override {
    return absl::UnimplementedError("only read");
  }
  absl::StatusOr<bool> Exists(absl::string_view) const override { return true; }
  absl::Status DeleteRecursively(absl::string_view) override {
    return absl::UnimplementedError("only read");
  }
  absl::Status SyncFolder(absl::string_view) override {
    return absl::UnimplementedError("only read");
  }

 private:
  class Zeros final : public StorageReader {
   public:
    explicit Zeros(uint64_t bytes) : bytes_(bytes) {}
    uint64_t size() const override { return bytes_; }
    absl::Status Read(uint64_t, absl::Span<std::byte> out) const override {
      EXPECT_LE(out.size(), kMostCheckpointMessageBytes + 16);
      std::fill(out.begin(), out.end(), std::byte{0});
      return absl::OkStatus();
    }

   private:
    const uint64_t bytes_;
  };

  const uint64_t bytes_;
};

TEST(ManifestTest, NoFileIsReadThatIsLargerThanAManifestCanBe) {
  for (const uint64_t bytes : {kMostCheckpointMessageBytes + 17, uint64_t{1} << 40}) {
    const absl::Status status = ReadManifest(HugeFileStorage(bytes), kJobFolder).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("at most 67108864 + 16"));
  }
}

TEST(ManifestTest, ANewerFormatIsRefusedByName) {
  MemoryStorage storage;
  v1::CheckpointManifest manifest = Manifest(7, 2);
  manifest.set_format_version(9);
  const std::string message = manifest.SerializeAsString();
  const uint64_t length = message.size();
  const uint64_t checksum = Fingerprint(message);
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  bytes += message;
  bytes.append(reinterpret_cast<const char*>(&checksum), 8);
  ASSERT_TRUE(WriteFile(storage, "/root/job-1/7/MANIFEST", bytes).ok());
  const absl::Status status = ReadManifest(storage, "/root/job-1/7").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("format version 9"));
}

TEST(ManifestTest, VerifyNamesTheDamagedFile) {
  MemoryStorage storage;
  WriteCheckpoint(storage, 7);
  const std::string uri = "/root/job-1/7/partition-1-generation-1";
  std::string damaged = Contents(7, 1);
  damaged[50] ^= 1;
  ASSERT_TRUE(ReplaceFile(storage, uri, damaged).ok());
  absl::Status status = VerifyCheckpoint(storage, "/root/job-1/7");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(uri));
  ASSERT_TRUE(ReplaceFile(storage, uri, Contents(7, 1).substr(1)).ok());
  status = VerifyCheckpoint(storage, "/root/job-1/7");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("has 100 bytes, the manifest says 101"));
  ASSERT_TRUE(storage.DeleteRecursively(uri).ok());
  status = VerifyCheckpoint(storage, "/root/job-1/7");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("missing"));
}

TEST(DeleteLeftoversTest, KeepsWhatCountsAndWhatMayBeUnderWay) {
  MemoryStorage storage;
  for (const uint64_t clock : {10, 20, 30, 40, 50}) WriteCheckpoint(storage, clock);
  WriteFiles(storage, 25, 2);
  WriteFiles(storage, 45, 1);
  const auto put = [&storage](const std::string& name) {
    ASSERT_TRUE(WriteFile(storage, JoinUri(kJobFolder, name), "x").ok());
  };
  // Other attempts at clocks that are committed, and what is no checkpoint.
  for (const char* name : {"20/another", "40/another", "notes", "007/MANIFEST"}) put(name);
  // 30 was completed, but whoever keeps the record died before it was noted.
  const LeftoverLimits limits = {.kept = {10, 20, 40}, .reached = 40, .generation = 1};
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_EQ(DeleteLeftovers(storage, kJobFolder, limits), absl::OkStatus());
    EXPECT_THAT(storage.List(kJobFolder).value(),
                ElementsAre("007", "10", "20", "40", "45", "50", "notes"));
    EXPECT_TRUE(*storage.Exists(JoinUri(kJobFolder, "20/another")))
        << "it goes with the checkpoint";
    EXPECT_FALSE(*storage.Exists(JoinUri(kJobFolder, "40/another")));
  }
  for (const uint64_t clock : {10, 20, 40}) {
    EXPECT_TRUE(VerifyCheckpoint(storage, CheckpointFolder("/root", "job-1", clock)).ok());
  }
  // The job has ended.
  ASSERT_EQ(
      DeleteLeftovers(storage, kJobFolder, {.kept = {40}, .reached = UINT64_MAX, .generation = 1}),
      absl::OkStatus());
  EXPECT_THAT(storage.List(kJobFolder).value(), ElementsAre("007", "40", "notes"));
  EXPECT_TRUE(DeleteLeftovers(storage, "/root/unknown", limits).ok());
}

TEST(DeleteLeftoversTest, LeavesWhatALaterGenerationWrites) {
  MemoryStorage storage;
  WriteCheckpoint(storage, 20);
  for (const char* clock : {"15/", "20/"}) {
    const std::string folder = JoinUri(kJobFolder, clock);
    for (const uint64_t generation : {1, 2}) {
      const std::string name = NewPartitionFileName(0, generation);
      ASSERT_TRUE(WriteFile(storage, JoinUri(folder, name), "x").ok());
    }
  }
  // Of generation 1, as it went back at the same moment.
  ASSERT_EQ(DeleteLeftovers(storage, kJobFolder, {.kept = {20}, .reached = 20, .generation = 1}),
            absl::OkStatus());
  EXPECT_EQ(storage.List("/root/job-1/15")->size(), 2);
  EXPECT_EQ(storage.List("/root/job-1/20")->size(), 4) << "less the other attempt";
  ASSERT_EQ(DeleteLeftovers(storage, kJobFolder, {.kept = {20}, .reached = 20, .generation = 2}),
            absl::OkStatus());
  EXPECT_THAT(storage.List(kJobFolder).value(), ElementsAre("20"));
  EXPECT_EQ(storage.List("/root/job-1/20")->size(), 3);
}

TEST(DeleteLeftoversTest, AManifestThatCannotBeReadKeepsItsFolder) {
  MemoryStorage storage;
  WriteCheckpoint(storage, 10);
  ASSERT_TRUE(ReplaceFile(storage, "/root/job-1/10/MANIFEST", "damaged").ok());
  EXPECT_TRUE(
      absl::IsDataLoss(DeleteLeftovers(storage, kJobFolder, {.kept = {10}, .reached = 10})));
  EXPECT_EQ(storage.List("/root/job-1/10")->size(), 3);
}

TEST(ManifestTest, IsNeverReplaced) {
  MemoryStorage storage;
  WriteCheckpoint(storage, 7);
  v1::CheckpointManifest again = Manifest(7, 2);
  again.set_generation(2);
  const absl::Status status = WriteManifest(storage, "/root/job-1/7", again);
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_NE(ReadManifest(storage, "/root/job-1/7")->generation(), 2);
}

TEST(ManifestTest, EveryAttemptAtAFileHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(NewPartitionFileName(3, 2));
  EXPECT_EQ(names.size(), 100);
  EXPECT_THAT(*names.begin(), StartsWith(PartitionFileName(3, 2) + "-"));
}

// Whenever it stops, what is listed is whole; and the next try finishes.
TEST(DeleteCheckpointTest, ACrashNeverLeavesAManifestWithoutItsFiles) {
  for (int changes = 0; changes < 4; ++changes) {
    MemoryStorage storage;
    for (const uint64_t clock : {10, 20}) WriteCheckpoint(storage, clock);
    const auto all_whole = [&storage] {
      for (const uint64_t clock : Clocks(storage)) {
        EXPECT_TRUE(VerifyCheckpoint(storage, CheckpointFolder("/root", "job-1", clock)).ok());
      }
    };
    FailingStorage failing(storage, changes, all_whole);
    const absl::Status status = DeleteCheckpoint(failing, "/root/job-1/10");
    EXPECT_EQ(status.ok(), changes >= 2) << status;
    all_whole();
    ASSERT_TRUE(DeleteCheckpoint(storage, "/root/job-1/10").ok());
    EXPECT_THAT(storage.List(kJobFolder).value(), ElementsAre("20"));
  }
}

class DeltaManifestTest : public ::testing::Test {
 protected:
  absl::Status WriteDelta(uint64_t clock, uint64_t base) {
    WriteFiles(storage_, clock, 2);
    v1::CheckpointManifest manifest = Manifest(clock, 2);
    manifest.set_base_clock(base);
    return WriteManifest(storage_, CheckpointFolder("/root", "job-1", clock), manifest);
  }

  MemoryStorage storage_;
};

TEST_F(DeltaManifestTest, NeedsItsBase) {
  const absl::Status missing = WriteDelta(20, 10);
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  EXPECT_THAT(missing.message(), HasSubstr("goes on from /root/job-1/10"));
  WriteCheckpoint(storage_, 10);
  ASSERT_TRUE(WriteDelta(20, 10).ok());
  ASSERT_TRUE(WriteDelta(30, 20).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(WriteDelta(40, 40)));

  const auto whole = AuditCheckpoint(storage_, "/root/job-1/30");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->clock, 30u);
  EXPECT_EQ(whole->files, 9u);
  EXPECT_EQ(whole->bytes, 3u * 201);
  EXPECT_THAT(whole->damage, IsEmpty());

  ASSERT_TRUE(DeleteCheckpoint(storage_, "/root/job-1/10").ok());
  const auto audit = AuditCheckpoint(storage_, "/root/job-1/30");
  ASSERT_TRUE(audit.ok()) << audit.status();
  ASSERT_EQ(audit->damage.size(), 1u);
  EXPECT_THAT(audit->damage[0].message(), HasSubstr("/root/job-1/10, which is gone"));
}

// A generation that went back may take a checkpoint of the same clock again.
TEST_F(DeltaManifestTest, AnotherCheckpointOfTheBasesClockIsNotItsBase) {
  WriteCheckpoint(storage_, 10);
  ASSERT_TRUE(WriteDelta(20, 10).ok());
  v1::CheckpointManifest again = Manifest(10, 2);
  again.set_generation(2);
  ASSERT_TRUE(DeleteManifest(storage_, "/root/job-1/10").ok());
  ASSERT_TRUE(WriteManifest(storage_, "/root/job-1/10", again).ok());
  const absl::Status status = VerifyCheckpoint(storage_, "/root/job-1/20");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("it was taken anew"));
}

TEST_F(DeltaManifestTest, NamesEveryDamagedFileOfTheChain) {
  WriteCheckpoint(storage_, 10);
  ASSERT_TRUE(WriteDelta(20, 10).ok());
  ASSERT_TRUE(ReplaceFile(storage_, "/root/job-1/20/partition-0-generation-1", "short").ok());
  ASSERT_TRUE(storage_.DeleteRecursively("/root/job-1/10/partition-1-generation-1").ok());
  const auto audit = AuditCheckpoint(storage_, "/root/job-1/20");
  ASSERT_TRUE(audit.ok()) << audit.status();
  ASSERT_EQ(audit->damage.size(), 2u);
  EXPECT_THAT(audit->damage[0].message(),
              HasSubstr("/root/job-1/20/partition-0-generation-1 has 5 bytes, the manifest says"));
  EXPECT_THAT(audit->damage[1].message(),
              HasSubstr("/root/job-1/10/partition-1-generation-1 is missing"));
}

TEST(ManifestTest, AFailedWriteLeavesNoCheckpoint) {
  MemoryStorage storage;
  WriteFiles(storage, 7, 2);
  FailingStorage failing(storage, 0);
  EXPECT_TRUE(absl::IsUnavailable(WriteManifest(failing, "/root/job-1/7", Manifest(7, 2))));
  EXPECT_THAT(Clocks(storage), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(ReadManifest(storage, "/root/job-1/7").status()));
}

}  // namespace
}  // namespace muster
