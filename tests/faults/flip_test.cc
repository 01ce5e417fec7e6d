// A bit that flips on the control channel of engines at work.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tests/faults/fault_cases.h"
#include "tests/faults/process_engines.h"

using namespace plait;
using namespace plait::test;

namespace {

/// The system's network, but for one bit of one frame.
class FlippingNet final : public Net {
 public:
  /// The next control frame that leaves has this bit flipped, counted over the frame and around.
  void arm(int64_t bit) {
    bit_ = bit;
    is_armed_ = true;
  }
  bool is_armed() const { return is_armed_; }

  std::unique_ptr<Listener> listen(const std::string& address) override {
    return std::make_unique<FlippingListener>(*this, posix_net().listen(address));
  }
  std::unique_ptr<Socket> connect(const std::string& address, int64_t timeout_ms) override {
    return wrap(posix_net().connect(address, timeout_ms));
  }
  std::unique_ptr<Socket> start_connect(const std::string& address) override {
    return wrap(posix_net().start_connect(address));
  }
  std::unique_ptr<Waker> make_waker() override { return posix_net().make_waker(); }
  void wait(std::vector<Interest>* interests, int64_t timeout_ms) override;
  std::string host_address() override { return posix_net().host_address(); }
  std::string host_name() override { return posix_net().host_name(); }
  int64_t process_id() override { return posix_net().process_id(); }

 private:
  class FlippingSocket final : public Socket {
   public:
    FlippingSocket(FlippingNet& net, std::unique_ptr<Socket> inner)
        : net_(net), inner_(std::move(inner)) {}
    Socket* inner() { return inner_.get(); }
    int64_t send(const void* data, int64_t bytes) override {
      std::string copy(static_cast<const char*>(data), static_cast<size_t>(bytes));
      const bool is_frame = copy.compare(0, 4, "PLIT") == 0;
      if (!is_frame || !net_.is_armed_.exchange(false)) return inner_->send(data, bytes);
      const int64_t bit = net_.bit_ % (8 * bytes);
      copy[static_cast<size_t>(bit / 8)] ^= static_cast<char>(1 << bit % 8);
      return inner_->send(copy.data(), bytes);
    }
    int64_t receive(void* data, int64_t bytes) override { return inner_->receive(data, bytes); }
    void shutdown() override { inner_->shutdown(); }
    std::string peer() const override { return inner_->peer(); }

   private:
    FlippingNet& net_;
    std::unique_ptr<Socket> inner_;
  };
  class FlippingListener final : public Listener {
   public:
    FlippingListener(FlippingNet& net, std::unique_ptr<Listener> inner)
        : net_(net), inner_(std::move(inner)) {}
    Listener* inner() { return inner_.get(); }
    std::unique_ptr<Socket> accept() override {
      std::unique_ptr<Socket> socket = inner_->accept();
      return socket == nullptr ? nullptr : net_.wrap(std::move(socket));
    }
    std::string address() const override { return inner_->address(); }

   private:
    FlippingNet& net_;
    std::unique_ptr<Listener> inner_;
  };
  std::unique_ptr<Socket> wrap(std::unique_ptr<Socket> socket) {
    return std::make_unique<FlippingSocket>(*this, std::move(socket));
  }

  std::atomic<bool> is_armed_{false};
  std::atomic<int64_t> bit_{0};
};

void FlippingNet::wait(std::vector<Interest>* interests, int64_t timeout_ms) {
  std::vector<Interest> inner = *interests;
  for (Interest& one : inner) {
    if (one.socket != nullptr) one.socket = static_cast<FlippingSocket*>(one.socket)->inner();
    if (one.listener != nullptr) {
      one.listener = static_cast<FlippingListener*>(one.listener)->inner();
    }
  }
  posix_net().wait(&inner, timeout_ms);
  for (size_t i = 0; i < inner.size(); ++i) {
    (*interests)[i].is_readable = inner[i].is_readable;
    (*interests)[i].is_writable = inner[i].is_writable;
  }
}

}  // namespace

TEST_CASE("R12: a bit that flips in a control frame is corrupt in every process",
          "[faults][flip]") {
  const std::vector<int32_t> rows = fault_rows(61);
  // Magic, protocol, kind, epoch, sequence, length, both checks, and the body.
  for (const int64_t bit : {3, 33, 50, 70, 133, 199, 230, 260, 330, 401}) {
    if (bit % 2 == 1 && kCaseStep > 1) continue;
    INFO("bit " << bit);
    FlippingNet net;
    ProcessOptions options;
    options.net = &net;
    options.transport = bit % 2 == 0 ? "tcp" : "shm";
    ProcessEngines engines({1, 1, 1}, options);
    require_all(engines.create(fault_config(degrees(1, 3, 1))), "");
    const auto endings = engines.each([&](size_t i) {
      for (int number = 0; number < 1000; ++number) {
        if (i == 1 && number == 2) net.arm(bit);
        step(engines[i], token_batch(rows, kFaultBatch));
      }
    });
    REQUIRE_FALSE(net.is_armed());
    for (const Ending& ending : endings) {
      INFO(ending.error.message());
      CHECK(ending.word == "corrupt");
      CHECK(ending.error.rank() == endings[0].error.rank());
      CHECK(ending.error.disposition() == Disposition::kEngineLost);
      CHECK(has(ending.error.message(), "fault="));
    }
  }
}
