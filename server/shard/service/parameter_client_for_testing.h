#ifndef MUSTER_SERVER_SHARD_SERVICE_PARAMETER_CLIENT_FOR_TESTING_H_
#define MUSTER_SERVER_SHARD_SERVICE_PARAMETER_CLIENT_FOR_TESTING_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "grpcpp/server.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/fake_partition_host.h"
#include "server/shard/service/parameter_service.h"

namespace muster {

// The way by which a ParameterClient reaches its server: in process, by gRPC, or by the data
// channel over TCP, TLS or shared memory, without and with memory that the client has registered.
enum class Way { kInProcess, kGrpc, kTcp, kTls, kSharedMemory, kRegistered };

std::string WayName(const ::testing::TestParamInfo<Way>& info);

// Returns the name that ChannelStats has for the way.
const char* Kind(Way way);

// A server of a fake host, and a client that reaches it one way.
class ParameterClientTest : public ::testing::TestWithParam<Way> {
 protected:
  static constexpr absl::Duration kTimeout = absl::Seconds(60);
  // Number of the host's parameters, unless a test says otherwise.
  static constexpr size_t kFloats = 1000;

  ParameterClientTest();
  ~ParameterClientTest() override { Stop(); }

  // Starts a server with so many parameters and connects `client_`, in place of those there were.
  void Serve(size_t floats, ExchangeLimits limits);
  std::unique_ptr<ParameterClient> Connect(ParameterClientOptions options = {});
  void Stop();

  static v1::ExchangeRequest Push() {
    v1::ExchangeRequest request;
    request.mutable_dense_push();
    return request;
  }
  static v1::ExchangeRequest Pull(uint64_t clock = 0) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    request.mutable_dense_pull();
    return request;
  }
  // Returns floats in registered memory, where there is some.
  Payload Floats(size_t count, float value) { return Floats(std::vector<float>(count, value)); }
  Payload Floats(std::vector<float> values);
  // Returns memory in which an answer may land.
  absl::Span<std::byte> Place(size_t bytes);
  // Returns the host's parameters, as a pull brings them.
  std::vector<float> Pulled(ParameterClient& client);

  // Spins until the other threads have brought `done` about.
  template <typename Done>
  static void Await(Done done) {
    while (!done()) std::this_thread::yield();
  }

  const RpcCredentials credentials_;
  const std::shared_ptr<ChannelIo> io_;
  const std::shared_ptr<RegisteredMemory> registered_ =
      GetParam() == Way::kRegistered ? *RegisteredMemory::Create(size_t{1} << 30) : nullptr;
  std::list<std::vector<std::byte>> own_places_;
  std::unique_ptr<FakePartitionHost> host_;
  std::unique_ptr<DataChannelServer> data_channels_;
  std::unique_ptr<ParameterService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<ParameterClient> client_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_PARAMETER_CLIENT_FOR_TESTING_H_
