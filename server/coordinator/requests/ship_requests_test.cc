#include "server/coordinator/requests/ship_requests.h"

#include <memory>
#include <string>

#include "common/job/test_jobs.h"
#include "common/program/content_hash.h"
#include "common/program/program_proof.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kShippingToken[] = "the token of the test";
constexpr char kContent[] = "the content of a folder";

CoordinatorOptions TakingPrograms() {
  CoordinatorOptions options;
  options.program_token = kShippingToken;
  return options;
}

v1::ShippedFolder FolderOfContent(const std::string& content,
                                  const std::string& token = kShippingToken) {
  ContentHash hash;
  hash.Add(content);
  v1::ShippedFolder folder;
  folder.set_name(hash.Name());
  folder.set_bytes(content.size());
  folder.set_proof(ProofOfShipped(folder, token));
  return folder;
}

class ShipRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* id : {"w0", "w1"}) cluster_.AddWorker(id);
  }

  absl::StatusOr<bool> Find(const v1::ShippedFolder& folder) {
    Answer<v1::FindShippedFolderReply> found;
    cluster_.coordinator().shipped().Find(folder, found.call());
    cluster_.Run();
    if (!found.status().ok()) return found.status();
    return found.get()->found();
  }

  // Returns what is to take the content; null: the coordinator has it.
  absl::StatusOr<std::shared_ptr<FolderUpload>> Begin(const v1::ShippedFolder& folder) {
    Answer<std::shared_ptr<FolderUpload>> begun;
    cluster_.coordinator().shipped().Begin(folder, begun.call());
    cluster_.Run();
    if (!begun.status().ok()) return begun.status();
    return *begun.get();
  }

  absl::Status Ship(const v1::ShippedFolder& folder, const std::string& content) {
    const auto upload = Begin(folder);
    if (!upload.ok()) return upload.status();
    if (*upload == nullptr) return absl::OkStatus();
    absl::Status appended, completed;
    (*upload)->Append(content, [&](absl::Status status) { appended = std::move(status); });
    (*upload)->Complete([&](absl::Status status) { completed = std::move(status); });
    cluster_.Run();
    appended.Update(completed);
    return appended;
  }

  bool Has(const v1::ShippedFolder& folder) {
    return *cluster_.archive.shipped().Has(folder.name());
  }

  static v1::JobSpec JobIn(const v1::ShippedFolder& folder) {
    v1::JobSpec spec = ProgramJob();
    spec.mutable_model()->mutable_program()->set_shipped(folder.name());
    return spec;
  }

  void Cancel(const std::string& job) {
    v1::CancelJobRequest cancel;
    cancel.set_job_id(job);
    ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
    cluster_.Pass(absl::Seconds(2));
  }

  void Delete(const std::string& job) {
    Answer<v1::DeleteJobReply> deleted;
    cluster_.coordinator().jobs().Delete(job, deleted.call());
    cluster_.Run();
    ASSERT_TRUE(deleted.status().ok()) << deleted.status();
    cluster_.Pass(absl::Seconds(2));
  }

  SimulatedCluster cluster_{TakingPrograms()};
  const v1::ShippedFolder folder_ = FolderOfContent(kContent);
};

TEST_F(ShipRequestsTest, AFolderIsTakenOnceAndComesWithTheOrdersOfItsJobs) {
  EXPECT_FALSE(*Find(folder_));
  ASSERT_EQ(Ship(folder_, kContent), absl::OkStatus());
  EXPECT_TRUE(*Find(folder_));
  EXPECT_EQ(*Begin(folder_), nullptr);
  const auto job = cluster_.Submit(JobIn(folder_));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(cluster_.Order(*job, 0)->spec().model().program().shipped(), folder_.name());
}

TEST_F(ShipRequestsTest, OnlyThoseWhoMayHaveProgramsRunSendFolders) {
  const v1::ShippedFolder forged = FolderOfContent(kContent, "a guess at the token");
  EXPECT_EQ(Find(forged).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Begin(forged).status().code(), absl::StatusCode::kPermissionDenied);
  v1::ShippedFolder other_size = folder_;
  other_size.set_bytes(1);
  EXPECT_EQ(Begin(other_size).status().code(), absl::StatusCode::kPermissionDenied);
  SimulatedCluster without_programs;
  Answer<std::shared_ptr<FolderUpload>> refused;
  without_programs.coordinator().shipped().Begin(folder_, refused.call());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--program-token-file"));
  // The proof of a submit says which folder it means.
  ASSERT_EQ(Ship(folder_, kContent), absl::OkStatus());
  v1::SubmitJobRequest request;
  *request.mutable_spec() = ProgramJob();
  request.set_request_id("r");
  request.set_program_proof(ProofOfSubmit(request, kShippingToken));
  *request.mutable_spec() = JobIn(folder_);
  Answer<v1::SubmitJobReply> reply;
  cluster_.coordinator().submits().Submit(request, reply.call());
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ShipRequestsTest, ImpossibleFoldersAreRefused) {
  v1::ShippedFolder wrong = folder_;
  wrong.set_name("../../etc");
  wrong.set_proof(ProofOfShipped(wrong, kShippingToken));
  EXPECT_EQ(Begin(wrong).status().code(), absl::StatusCode::kInvalidArgument);
  wrong = folder_;
  wrong.set_bytes((uint64_t{256} << 20) + 1);
  wrong.set_proof(ProofOfShipped(wrong, kShippingToken));
  EXPECT_THAT(std::string(Begin(wrong).status().message()), HasSubstr("256.0 MiB"));
  EXPECT_EQ(Ship(folder_, "the content of another ").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(*Find(folder_));
}

TEST_F(ShipRequestsTest, AJobCannotNameAFolderThatIsNotThere) {
  const auto job = cluster_.Submit(JobIn(folder_));
  EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("`muster submit --ship`"));
}

TEST_F(ShipRequestsTest, AFolderGoesWithTheLastJobThatNamesIt) {
  ASSERT_EQ(Ship(folder_, kContent), absl::OkStatus());
  const std::string first = *cluster_.Submit(JobIn(folder_));
  Cancel(first);
  const std::string second = *cluster_.Submit(JobIn(folder_));
  Cancel(second);
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(2));
  Delete(first);
  EXPECT_TRUE(Has(folder_));
  Delete(second);
  EXPECT_FALSE(Has(folder_));
  EXPECT_EQ(cluster_.Submit(JobIn(folder_)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShipRequestsTest, AFolderWithoutAJobStaysForAnHour) {
  ASSERT_EQ(Ship(folder_, kContent), absl::OkStatus());
  cluster_.clock.Advance(absl::Minutes(59));
  cluster_.Pass(absl::Seconds(2));
  ASSERT_TRUE(Has(folder_));
  // A restart forgets when it came.
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(2));
  cluster_.clock.Advance(absl::Minutes(59));
  cluster_.Pass(absl::Seconds(2));
  EXPECT_TRUE(Has(folder_));
  cluster_.clock.Advance(absl::Minutes(1));
  cluster_.Pass(absl::Seconds(2));
  EXPECT_FALSE(Has(folder_));
}

TEST_F(ShipRequestsTest, MoreThanAFewAtATimeWait) {
  std::vector<std::shared_ptr<FolderUpload>> uploads;
  for (int i = 0; i < 8; ++i) {
    const auto upload = Begin(FolderOfContent(std::string(i + 1, 'a')));
    ASSERT_TRUE(upload.ok()) << upload.status();
    uploads.push_back(*upload);
  }
  EXPECT_EQ(Begin(folder_).status().code(), absl::StatusCode::kUnavailable);
  uploads.pop_back();
  EXPECT_NE(*Begin(folder_), nullptr);
  uploads.clear();
  cluster_.Run();
}

}  // namespace
}  // namespace muster
