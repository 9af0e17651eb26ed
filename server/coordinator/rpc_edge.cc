#include "server/coordinator/rpc_edge.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "server/coordinator/job/request_limits.h"

namespace muster {
namespace {

using google::protobuf::Message;

// gRPC takes 8 KiB of trailing metadata, which include the error's message, partly escaped.
constexpr size_t kErrorBytes = 4096;

}  // namespace

absl::Status ReadRequest(const grpc::ByteBuffer& bytes, Message& request) {
  return CatchOutOfMemory("the call", [&]() -> absl::Status {
    const std::string& type = request.GetDescriptor()->name();
    const size_t most = MaxRequestBytes(*request.GetDescriptor());
    if (bytes.Length() > most) {
      return absl::InvalidArgumentError(absl::StrCat("the ", type, " has ", bytes.Length(),
                                                     " bytes; the limit is ", most, ": send less"));
    }
    grpc::ByteBuffer unread = bytes;
    if (!grpc::SerializationTraits<Message>::Deserialize(&unread, &request).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the request is no ", type, ", or text in it is not UTF-8"));
    }
    return CheckLimits(request);
  });
}

absl::Status WriteReply(const Message& reply, grpc::ByteBuffer& bytes) {
  return CatchOutOfMemory("the call", [&] {
    bool own_buffer = false;
    return FromGrpc(grpc::SerializationTraits<Message>::Serialize(reply, &bytes, &own_buffer));
  });
}

grpc::ByteBuffer BufferOf(const std::shared_ptr<const std::string>& bytes) {
  using Owner = std::shared_ptr<const std::string>;
  auto owner = std::make_unique<Owner>(bytes);
  // gRPC does not write to what it sends.
  const grpc::Slice slice(
      const_cast<char*>(bytes->data()), bytes->size(),
      [](void* released) { delete static_cast<Owner*>(released); }, owner.release());
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Status AtEdge(const absl::Status& status) {
  if (status.message().size() <= kErrorBytes) return ToGrpc(status);
  absl::Status shorter(status.code(), Shortened(status.message(), kErrorBytes));
  status.ForEachPayload([&shorter](absl::string_view type, const absl::Cord& payload) {
    shorter.SetPayload(type, payload);
  });
  return ToGrpc(shorter);
}

int MethodIndex(absl::string_view service, absl::string_view method) {
  const auto* described =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(std::string(service));
  if (described == nullptr) std::abort();
  const auto* found = described->FindMethodByName(std::string(method));
  if (found == nullptr) std::abort();
  return found->index();
}

}  // namespace muster
