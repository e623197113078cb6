"""A Docker engine with offline test images, for machines that have neither: `python -m engine start | stop | status`.

It uses the engine that answers, else starts a private `dockerd` of its own. Root on Debian or Ubuntu is needed only for what is
missing. Nothing is pulled: the images are made from the distribution's packages.
"""
