// The muster-server process against a coordinator played by the test.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/root_mark.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

extern char** environ;

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(50);

// Remembers what daemons say; its orders are the test's.
class FakeCoordinator final : public v1::ClusterService::Service {
 public:
  FakeCoordinator() {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = WithPort("127.0.0.1:0", port);
  }
  ~FakeCoordinator() override { server_->Shutdown(); }

  grpc::Status RegisterDaemon(grpc::ServerContext*, const v1::RegisterDaemonRequest* request,
                              v1::RegisterDaemonReply* reply) override {
    absl::MutexLock lock(&mutex_);
    registrations_.push_back(*request);
    if (refuse_) return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "too old");
    reply->set_incarnation(registrations_.size());
    reply->set_lease_ms(3000);
    return grpc::Status::OK;
  }

  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatReply* reply) override {
    absl::MutexLock lock(&mutex_);
    heartbeats_.push_back(*request);
    const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return orders_.orders_version() != request->seen_orders_version();
    };
    mutex_.AwaitWithTimeout(absl::Condition(&changed), absl::Milliseconds(request->poll_ms()));
    *reply = orders_;
    return grpc::Status::OK;
  }

  const std::string& address() const { return address_; }
  void Refuse() {
    absl::MutexLock lock(&mutex_);
    refuse_ = true;
  }
  void Order(v1::HeartbeatReply orders) {
    absl::MutexLock lock(&mutex_);
    orders_ = std::move(orders);
  }
  // The daemon's first registration, once it came.
  v1::RegisterDaemonRequest AwaitRegistration() {
    absl::MutexLock lock(&mutex_);
    const auto came = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !registrations_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&came), kPatience));
    return registrations_.empty() ? v1::RegisterDaemonRequest() : registrations_[0];
  }
  // The first heartbeat that `wanted` holds for, once it came.
  template <typename Predicate>
  v1::HeartbeatRequest AwaitHeartbeat(Predicate wanted) {
    absl::MutexLock lock(&mutex_);
    v1::HeartbeatRequest found;
    const auto came = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (const auto& heartbeat : heartbeats_) {
        if (!wanted(heartbeat)) continue;
        found = heartbeat;
        return true;
      }
      return false;
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&came), kPatience));
    return found;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  absl::Mutex mutex_;
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
  v1::HeartbeatReply orders_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::RegisterDaemonRequest> registrations_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::HeartbeatRequest> heartbeats_ ABSL_GUARDED_BY(mutex_);
};

class MusterServerTest : public ::testing::Test {
 protected:
  MusterServerTest() {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~MusterServerTest() override {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    Exit();
  }

  void Start(std::vector<std::string> arguments) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string binary = "server/muster-server";
    std::vector<char*> argv = {binary.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&pid_, binary.c_str(), &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }

  // Standard output's next line; empty at its end.
  std::string Line() {
    char line[1000] = "";
    return fgets(line, sizeof(line), output_) == nullptr ? "" : line;
  }
  std::string Address() {
    const std::string line = Line();
    const std::string prefix = "muster-server: listening on ";
    EXPECT_THAT(line, StartsWith(prefix));
    return line.substr(prefix.size(), line.size() - prefix.size() - 1);
  }

  // Waits for the process; its exit status, or -1 if a signal killed it.
  int Exit() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    fclose(output_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static v1::OpenTablesRequest Tables(const std::string& job) {
    v1::OpenTablesRequest request;
    request.set_job_id(job);
    request.set_generation(1);
    request.set_slots(1);
    v1::TensorSchema& tensor = *request.mutable_schema()->add_tensors();
    tensor.set_name("w");
    tensor.add_shape(100);
    tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    request.mutable_schema()->set_partitions(1);
    request.mutable_schema()->set_block_bytes(1 << 20);
    request.mutable_schema()->mutable_optimizer()->set_name("sgd");
    request.mutable_schema()->mutable_optimizer()->set_learning_rate(1);
    request.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
    request.add_partitions()->set_term(1);
    return request;
  }

  FakeCoordinator coordinator_;
  std::string folder_;
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

TEST_F(MusterServerTest, WhatItKeepsIsItsUsersAlone) {
  for (const bool group : {false, true}) {
    const std::string data = absl::StrCat(folder_, "/data", group);
    std::vector<std::string> arguments = {"--standalone", "--listen=127.0.0.1:0",
                                          "--data-dir=" + data};
    if (group) arguments.push_back("--group-files");
    const mode_t before = umask(0);
    Start(arguments);
    umask(before);
    Address();
    kill(pid_, SIGTERM);
    EXPECT_EQ(Exit(), 0);
    int files = 0;
    const auto check = [&](const std::filesystem::directory_entry& entry) {
      const mode_t mode = static_cast<mode_t>(entry.status().permissions());
      EXPECT_EQ(mode & (group ? 0007 : 0077), 0u) << entry.path();
      if (entry.is_directory()) EXPECT_EQ(mode, group ? 0770u : 0700u) << entry.path();
      ++files;
    };
    check(std::filesystem::directory_entry(data));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data)) check(entry);
    // Two folders, the mark, and what RocksDB makes.
    EXPECT_GT(files, 5);
  }
}

TEST_F(MusterServerTest, JoinsReportsAndLeaves) {
  Start({"--id=s7", "--listen=127.0.0.1:0", "--memory=64MiB", "--data-dir=" + folder_ + "/data",
         "--coordinator=" + coordinator_.address(), "--address-file=" + folder_ + "/address"});
  const std::string address = Address();
  const v1::RegisterDaemonRequest registration = coordinator_.AwaitRegistration();
  EXPECT_EQ(registration.id(), "s7");
  EXPECT_EQ(registration.kind(), v1::SERVER);
  EXPECT_EQ(registration.address(), address);
  EXPECT_EQ(registration.memory_bytes(), 64u << 20);
  EXPECT_NE(registration.process_nonce(), 0u);
  const v1::HeartbeatRequest heartbeat =
      coordinator_.AwaitHeartbeat([](const auto& h) { return h.incarnation() == 1; });
  EXPECT_EQ(heartbeat.id(), "s7");
  std::set<std::string> names;
  for (const v1::MetricFamily& family : heartbeat.metrics()) names.insert(family.name());
  EXPECT_THAT(names, testing::IsSupersetOf({"muster_build_info", "muster_rocksdb_files_bytes",
                                            "muster_server_operation_seconds",
                                            "muster_server_pushed_bytes_total"}));
  FILE* file = fopen((folder_ + "/address").c_str(), "r");
  ASSERT_NE(file, nullptr);
  char written[100] = "";
  EXPECT_NE(fgets(written, sizeof(written), file), nullptr);
  fclose(file);
  EXPECT_EQ(written, address + "\n");

  const absl::Time start = absl::Now();
  kill(pid_, SIGTERM);
  EXPECT_EQ(Exit(), 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  coordinator_.AwaitHeartbeat([](const auto& h) { return h.leaving(); });
}

TEST_F(MusterServerTest, DropsTheJobsItIsToldTo) {
  Start({"--id=s0", "--listen=127.0.0.1:0", "--coordinator=" + coordinator_.address()});
  auto client = MakeGrpcParameterClient(Address(), RpcCredentials::PlainText());
  v1::HeartbeatReply orders;
  orders.set_orders_version(1);
  // In this order no heartbeat before the drop shows job-2 alone.
  for (const char* job : {"job-1", "job-2"}) {
    v1::OpenTablesRequest tables = Tables(job);
    // The order is from before job-2 was started again.
    tables.set_generation(job == std::string("job-2") ? 3 : 2);
    const auto opened = client->OpenTables(tables, kPatience);
    ASSERT_TRUE(opened.ok()) << opened.status();
    v1::DropOrder& drop = *orders.add_drops();
    drop.set_job_id(job);
    drop.set_generation(2);
  }
  EXPECT_EQ(client->Stats(kPatience)->tables_size(), 2);
  coordinator_.Order(orders);
  const auto only_job_2 = [](const v1::HeartbeatRequest& heartbeat) {
    int first = 0, second = 0;
    for (const v1::MetricFamily& family : heartbeat.metrics()) {
      for (const v1::Metric& metric : family.metrics()) {
        for (const v1::MetricLabel& label : metric.labels()) {
          first += label.value() == "job-1";
          second += label.value() == "job-2";
        }
      }
    }
    return first == 0 && second > 0;
  };
  coordinator_.AwaitHeartbeat(only_job_2);
  // It says that the orders are carried out, and what it still holds.
  coordinator_.AwaitHeartbeat([](const v1::HeartbeatRequest& heartbeat) {
    return heartbeat.drops_size() == 2 && heartbeat.drops(0).generation() == 2 &&
           heartbeat.held_jobs_size() == 1 && heartbeat.held_jobs(0) == "job-2";
  });
  const auto stats = client->Stats(kPatience);
  ASSERT_EQ(stats->tables_size(), 1);
  EXPECT_EQ(stats->tables(0).job_id(), "job-2");
}

// A volume of the server's own, where the coordinator's mark is not.
TEST_F(MusterServerTest, RefusesACheckpointRootThatIsNotTheCoordinators) {
  Start({"--id=s0", "--listen=127.0.0.1:0", "--coordinator=" + coordinator_.address()});
  auto client = MakeGrpcParameterClient(Address(), RpcCredentials::PlainText());
  v1::OpenTablesRequest tables = Tables("job-1");
  tables.set_checkpoint_root(folder_ + "/checkpoints");
  const absl::Status refused = client->OpenTables(tables, kPatience).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("server s0"), HasSubstr(folder_ + "/checkpoints"),
                                       HasSubstr("mount one volume")));
  // Others go on, and so does this one once the volume is there.
  EXPECT_TRUE(client->OpenTables(Tables("job-2"), kPatience).ok());
  LocalStorage storage;
  ASSERT_TRUE(MarkCheckpointRoot(storage, folder_ + "/checkpoints").ok());
  const auto opened = client->OpenTables(tables, kPatience);
  EXPECT_TRUE(opened.ok()) << opened.status();
}

TEST_F(MusterServerTest, EndsWhenTheCoordinatorWillNeverTakeIt) {
  coordinator_.Refuse();
  Start({"--id=s0", "--listen=127.0.0.1:0", "--coordinator=" + coordinator_.address()});
  EXPECT_EQ(Exit(), 1);
}

TEST_F(MusterServerTest, KeepsItsIdInItsFolder) {
  const std::string data = "--data-dir=" + folder_ + "/data";
  for (int i = 0; i < 2; ++i) {
    FakeCoordinator coordinator;
    Start({"--listen=127.0.0.1:0", data, "--coordinator=" + coordinator.address()});
    static std::string first;
    const std::string id = coordinator.AwaitRegistration().id();
    EXPECT_FALSE(id.empty());
    if (i == 0) first = id;
    EXPECT_EQ(id, first);
    kill(pid_, SIGTERM);
    EXPECT_EQ(Exit(), 0);
  }
  Start({"--listen=127.0.0.1:0", data, "--id=another"});
  EXPECT_EQ(Exit(), 1);
}

TEST_F(MusterServerTest, AdvertisesWhatItIsToldTo) {
  Start({"--id=s0", "--listen=127.0.0.1:0", "--advertise=server-0.muster:0",
         "--coordinator=" + coordinator_.address()});
  const std::string address = Address();
  EXPECT_EQ(coordinator_.AwaitRegistration().address(),
            "server-0.muster" + address.substr(address.find(':')));
}

// Whoever reaches it could have it open any file of its user's.
TEST_F(MusterServerTest, ListensToOtherMachinesOnlyWithFoldersThatBoundJobs) {
  Start({"--standalone", "--listen=0.0.0.0:0"});
  EXPECT_EQ(Exit(), 1);
  Start({"--standalone", "--listen=0.0.0.0:0", "--data-root=" + ::testing::TempDir()});
  EXPECT_FALSE(Address().empty());
  kill(pid_, SIGTERM);
  EXPECT_EQ(Exit(), 0);
}

TEST_F(MusterServerTest, WrongUsageAndATakenPortAreErrors) {
  Start({"--threads=0"});
  EXPECT_NE(Exit(), 0);
  Start({"--standalone", "--coordinator=" + coordinator_.address()});
  EXPECT_NE(Exit(), 0);
  Start({"--listen=" + coordinator_.address()});
  EXPECT_EQ(Exit(), 1);
}

}  // namespace
}  // namespace muster
