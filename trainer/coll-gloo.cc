/* Gloo, which has no interface but C++: the one file that knows it. */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "gloo-internal.h"

namespace
{

class Store final : public gloo::rendezvous::Store
{
  public:
    explicit Store(const gloo_store &s) : s_(s) {}

    void set(const std::string &key, const std::vector<char> &data) override
    {
        if (s_.set(s_.arg, key.c_str(), data.data(), data.size()))
            throw std::runtime_error("the ranks' store is gone");
    }

    std::vector<char> get(const std::string &key) override
    {
        void *value = nullptr;
        size_t len = 0;
        if (s_.get(s_.arg, key.c_str(), &value, &len))
            throw std::runtime_error("a rank did not come");
        std::vector<char> ret(static_cast<char *>(value), static_cast<char *>(value) + len);
        free(value);
        return ret;
    }

    void wait(const std::vector<std::string> &keys) override
    {
        for (const auto &key : keys)
            get(key);
    }

  private:
    gloo_store s_;
};

/* Runs `f`; what it throws becomes -1 and a text. */
template <typename F> int guarded(char why[GLOO_WHY], F f)
{
    try {
        f();
        return 0;
    } catch (const std::exception &e) {
        snprintf(why, GLOO_WHY, "%s", e.what());
    } catch (...) {
        snprintf(why, GLOO_WHY, "an unknown failure");
    }
    return -1;
}

} // namespace

struct gloo_mesh {
    std::shared_ptr<gloo::transport::Device> device;
    std::shared_ptr<gloo::rendezvous::Context> context;
};

int gloo_mesh_open(struct gloo_mesh **ret, uint32_t rank, uint32_t ranks, const char *address,
                   uint64_t answer_ms, const struct gloo_store *store, char why[GLOO_WHY])
{
    std::unique_ptr<gloo_mesh> m(new (std::nothrow) gloo_mesh);
    if (!m)
        return -1;
    int failed = guarded(why, [&] {
        gloo::transport::tcp::attr attr;
        attr.hostname = address;
        m->device = gloo::transport::tcp::CreateDevice(attr);
        m->context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank),
                                                                 static_cast<int>(ranks));
        m->context->setTimeout(std::chrono::milliseconds(answer_ms));
        Store s(*store);
        m->context->connectFullMesh(s, m->device);
    });
    if (!failed)
        *ret = m.release();
    return failed;
}

int gloo_mesh_sum(struct gloo_mesh *m, float *y, size_t n, char why[GLOO_WHY])
{
    return guarded(why, [&] {
        gloo::AllreduceOptions o(m->context);
        o.setOutput(y, n);
        o.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
        gloo::allreduce(o);
    });
}

int gloo_mesh_share(struct gloo_mesh *m, void *bytes, size_t n, char why[GLOO_WHY])
{
    return guarded(why, [&] {
        gloo::BroadcastOptions o(m->context);
        o.setOutput(static_cast<char *>(bytes), n);
        o.setRoot(0);
        gloo::broadcast(o);
    });
}

int gloo_mesh_barrier(struct gloo_mesh *m, char why[GLOO_WHY])
{
    return guarded(why, [&] {
        gloo::BarrierOptions o(m->context);
        gloo::barrier(o);
    });
}

void gloo_mesh_close(struct gloo_mesh *m)
{
    char why[GLOO_WHY];
    (void)guarded(why, [&] { delete m; });
}
