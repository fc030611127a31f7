# Sourced by `run`: what the loader makes of pictures beside torchvision and Paddle.
if "$loaders/bin/python" -c "import PIL, numpy, torchvision, paddle" 2>/dev/null; then
    SAMPAN_LOADER_LIBRARY=$(dirname "$SAMPAN")/../lib/libsampan-loader.so.0 PYTHONPATH=$PWD/python "$loaders/bin/python" -B -W ignore \
        tests/conformance/pictures.py "$T/picture-kinds" 2>"$T/pictures.err" || { tail -3 "$T/pictures.err"; false; }
    result "torchvision, Paddle: pictures are decoded, resized and cut as they do it" $?
else
    skipped "pictures beside torchvision and Paddle" "their Python packages are not installed (LOADERS=1 fetches them; large)"
fi
